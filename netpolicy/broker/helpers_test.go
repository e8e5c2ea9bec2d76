//go:build linux

package broker_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsexec"
)

// helpers are the programs as which this test binary can run. Each prints one line for each thing that it tried, with
// the result.
func helpers() map[string]func(args []string) int {
	return map[string]func([]string) int{
		"connect": helpConnect, "udp": helpUDP, "udpnone": helpUDPNone, "options": helpOptions, "epoll": helpEpoll, "dup": helpDup,
		"nonblock": helpNonblock, "addressed": helpAddressed, "defaults": helpDefaults, "again": helpAgain, "sockets": helpSockets, "listen": helpListen, "serve": helpServe,
		"inside": helpInside, "unix": helpUnix, "threads": helpThreads, "fork": helpFork, "swap": helpSwap,
		"dup2race": helpDup2Race, "hostlisten": helpHostListen, "unspec": helpUnspec, "fastopen": helpFastOpen,
		"bad": helpBad, "orphan": helpOrphan, "passed": helpPassed, "magic": helpMagic,
		"storm": helpStorm, "bench": helpBench, "many": helpMany, "messages": helpMessages, "world": helpWorld, "brokered": helpBrokered, "sizes": helpSizes, "udpswap": helpUDPSwap, "acceptor": helpAcceptor,
		"unused": helpUnused, "inherited": helpInherited, "refused": helpRefused, "within": helpWithin, "guess": helpGuess, "hello": helpHello,
		"server": helpServer, "errqueue": helpErrQueue, "flip": helpFlip, "failed": helpFailed, "unblock": helpUnblock, "abort": helpAbort, "plenty": helpPlenty, "linger": helpLinger,
		"source": helpSource, "local": helpLocal, "localgiven": helpLocalGiven, "route": helpRoute, "crowd": helpCrowd,
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Println("helper:", err)
		os.Exit(1)
	}
	return v
}

// again repeats a call that a signal interrupted: the Go runtime sends signals to its threads, and the kernel does not
// restart every call.
func again[T any](call func() (T, error)) (v T, err error) {
	err = sys.Retry(func() (err error) { v, err = call(); return err })
	return v, err
}

// poll waits until a descriptor is ready.
func poll(fd int, events int16) {
	must(again(func() (int, error) { return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, -1) }))
}

// event waits until an epoll instance has events.
func event(instance int) (n int, first unix.EpollEvent) {
	var events [4]unix.EpollEvent
	n = must(again(func() (int, error) { return unix.EpollWait(instance, events[:], -1) }))
	return n, events[0]
}

// connect waits for no longer than SO_SNDTIMEO says.
func connect(fd int, to unix.Sockaddr) error {
	return sys.Retry(func() error { return unix.Connect(fd, to) })
}

func say(name string, err error) { fmt.Printf("%s: %s\n", name, word(err)) }

// sockaddr is an address as system calls take it.
func sockaddr(to string) unix.Sockaddr {
	a := netip.MustParseAddrPort(to)
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func family(to string) int {
	if netip.MustParseAddrPort(to).Addr().Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// tcp is a socket for the family of an address.
func tcp(to string) int { return must(unix.Socket(family(to), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)) }

// udp is one for datagrams.
func udp(to string) int { return must(unix.Socket(family(to), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)) }

func word(err error) string {
	if err == nil || err == syscall.Errno(0) {
		return "ok"
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(e)
	}
	return err.Error()
}

// hello prints what a server says first.
func hello(fd int) {
	var b [6]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		fmt.Println(word(err))
		return
	}
	fmt.Print(string(b[:n]))
}

func helpConnect(args []string) int {
	for _, to := range args {
		fd := tcp(to)
		if err := unix.Connect(fd, sockaddr(to)); err != nil {
			fmt.Println(word(err))
			continue
		}
		hello(fd)
	}
	return 0
}

// helpUDP sends to each address, with and without connecting, and prints what comes back.
func helpUDP(args []string) int {
	for i, to := range args {
		for _, connected := range []bool{false, true} {
			if i == 2 && !connected {
				continue // it would never hear of it that nobody is there
			}
			fd := udp(to)
			var err error
			if connected {
				if err = unix.Connect(fd, sockaddr(to)); err == nil {
					_, err = unix.Write(fd, []byte("ping"))
				}
			} else {
				err = unix.Sendto(fd, []byte("ping"), 0, sockaddr(to))
			}
			if err != nil {
				fmt.Println(word(err))
				continue
			}
			var b [64]byte
			n, from, err := unix.Recvfrom(fd, b[:], 0)
			if err != nil {
				fmt.Println("receive:", word(err))
				continue
			}
			same := "another"
			if fmt.Sprint(from) == fmt.Sprint(sockaddr(to)) {
				same = "same"
			}
			fmt.Println(string(b[:n]), same)
			_ = unix.Close(fd)
		}
	}
	return 0
}

// helpRoute sends a message, and prints the metrics of the local routes to the sandbox's IPv6 address.
func helpRoute(args []string) int {
	must(0, unix.Sendto(udp(args[0]), []byte("ping"), 0, sockaddr(args[0])))
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/net/ipv6_route")))) {
		if f := strings.Fields(line); f[0] == "fd6e7372756e00000000000000000001" && f[8][0] == '8' { // RTF_LOCAL
			fmt.Println(f[5])
		}
	}
	return 0
}

// helpMessages sends with sendmsg and sendmmsg.
func helpMessages(args []string) int {
	allowed, denied := args[0], args[1]
	fd := udp(allowed)
	say("sendmsg allowed", unix.Sendmsg(fd, []byte("ping"), nil, sockaddr(allowed), 0))
	var b [64]byte
	n := must(unix.Read(fd, b[:]))
	fmt.Println(string(b[:n]))
	say("sendmsg denied", unix.Sendmsg(fd, []byte("ping"), nil, sockaddr(denied), 0))
	say("sendmmsg allowed", sendmmsg(fd, allowed, allowed))
	for range 2 {
		n = must(unix.Read(fd, b[:]))
		fmt.Println(string(b[:n]))
	}
	say("sendmmsg denied", sendmmsg(fd, allowed, denied))
	return 0
}

func sendmmsg(fd int, to ...string) error {
	type mmsghdr struct {
		unix.Msghdr
		n uint32
		_ uint32
	}
	var names [2]unix.RawSockaddrInet4
	iov := unix.Iovec{Base: &[]byte("ping")[0], Len: 4}
	list := make([]mmsghdr, len(to))
	for i := range to {
		a := netip.MustParseAddrPort(to[i])
		p := a.Port()
		names[i] = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: p<<8 | p>>8, Addr: a.Addr().As4()}
		list[i].Name, list[i].Namelen = (*byte)(unsafe.Pointer(&names[i])), unix.SizeofSockaddrInet4
		list[i].Iov, list[i].Iovlen = &iov, 1
	}
	_, _, e := syscall.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&list[0])), uintptr(len(list)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// helpOptions sets options before it connects, and prints them afterwards.
func helpOptions(args []string) int {
	to := args[0]
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))
	type option struct {
		name        string
		level, n, v int
	}
	options := []option{
		{"keepalive", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {"nodelay", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"keepidle", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 77}, {"tos", unix.IPPROTO_IP, unix.IP_TOS, 0x10},
		{"rcvbuf", unix.SOL_SOCKET, unix.SO_RCVBUF, 30000}, {"usertimeout", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000},
	}
	for _, o := range options {
		say(o.name, unix.SetsockoptInt(fd, o.level, o.n, o.v))
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3})
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 9})
	say("connect", unix.Connect(fd, sockaddr(to)))
	for _, o := range options {
		fmt.Println(o.name, must(unix.GetsockoptInt(fd, o.level, o.n)))
	}
	tv := must(unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO))
	fmt.Println("rcvtimeo", tv.Sec)
	flags := must(unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0))
	fl := must(unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0))
	fmt.Println("cloexec", flags&unix.FD_CLOEXEC, "nonblock", fl&unix.O_NONBLOCK)
	other := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	say("connect", unix.Connect(other, sockaddr(to)))
	flags = must(unix.FcntlInt(uintptr(other), unix.F_GETFD, 0))
	fmt.Println("cloexec", flags&unix.FD_CLOEXEC)
	hello(fd)
	return 0
}

// helpNonblock connects without waiting, and polls.
func helpNonblock(args []string) int {
	for _, to := range args {
		fd := must(unix.Socket(family(to), unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))
		err := unix.Connect(fd, sockaddr(to))
		if err != nil && err != unix.EINPROGRESS {
			fmt.Println(word(err))
			continue
		}
		poll(fd, unix.POLLOUT)
		if e := must(unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)); e != 0 {
			fmt.Println("so_error", word(syscall.Errno(e)))
			continue
		}
		poll(fd, unix.POLLIN)
		hello(fd)
	}
	return 0
}

// helpEpoll registers a socket in two epoll instances before it connects, of which one knows many
// files.
func helpEpoll(args []string) int {
	to := args[0]
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))
	var instances [2]int
	for i := range instances {
		instances[i] = must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
		flags := uint32(unix.EPOLLOUT)
		if i == 1 {
			flags = unix.EPOLLOUT | unix.EPOLLIN | unix.EPOLLET&0xffffffff
		}
		say("add", unix.EpollCtl(instances[i], unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: flags, Fd: int32(100 + i), Pad: int32(-7 - i)}))
		must(unix.FcntlInt(uintptr(instances[i]), unix.F_DUPFD_CLOEXEC, 0)) // two numbers for one instance
	}
	// More than 64 KiB of /proc/self/fdinfo.
	for range 900 {
		other := must(unix.Eventfd(0, unix.EFD_CLOEXEC))
		must(0, unix.EpollCtl(instances[1], unix.EPOLL_CTL_ADD, other, &unix.EpollEvent{Events: unix.EPOLLIN}))
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		say("connect", err)
		return 0
	}
	for _, in := range instances {
		n, e := event(in)
		fmt.Println(n, e.Fd, e.Pad, e.Events&unix.EPOLLOUT != 0, e.Events&unix.EPOLLHUP != 0)
		say("mod", unix.EpollCtl(in, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: 9}))
		_, e = event(in)
		fmt.Println(e.Fd)
		say("del", unix.EpollCtl(in, unix.EPOLL_CTL_DEL, fd, nil))
	}
	hello(fd)
	return 0
}

// helpDup connects a socket that has three numbers, one of them close-on-exec.
func helpDup(args []string) int {
	to := args[0]
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))
	second := must(unix.Dup(fd))
	third := must(unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 100))
	say("connect", unix.Connect(second, sockaddr(to)))
	for _, n := range []int{fd, second, third} {
		_, err := unix.Getpeername(n)
		fmt.Println(word(err), must(unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)))
	}
	hello(third)
	return 0
}

// helpAgain connects a connected socket, and one that failed.
func helpAgain(args []string) int {
	allowed, denied := args[0], args[1]
	fd := tcp(allowed)
	say("first", unix.Connect(fd, sockaddr(allowed)))
	say("second", unix.Connect(fd, sockaddr(allowed)))
	say("denied", unix.Connect(fd, sockaddr(denied)))
	hello(fd)
	fd = tcp(denied)
	say("denied", unix.Connect(fd, sockaddr(denied)))
	say("allowed", unix.Connect(fd, sockaddr(allowed)))
	hello(fd)
	return 0
}

// helpFailed connects to an address where nobody listens, does not ask how that ended, and listens.
func helpFailed(args []string) int {
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))
	say("connect", unix.Connect(fd, sockaddr(args[0])))
	poll(fd, unix.POLLOUT)
	say("bind", unix.Bind(fd, sockaddr("127.0.0.1:0")))
	listenInside(fd)
	return 0
}

// helpUnspec disconnects a host socket and tries what could be done with it.
func helpUnspec(args []string) int {
	allowed, denied := args[0], args[1]
	fd := tcp(allowed)
	say("connect", unix.Connect(fd, sockaddr(allowed)))
	hello(fd)
	say("unspec", rawConnect(fd, unix.AF_UNSPEC))
	_, err := unix.Getpeername(fd)
	say("peer", err)
	say("denied", unix.Connect(fd, sockaddr(denied)))
	say("again", unix.Connect(fd, sockaddr(allowed)))
	hello(fd)
	say("unspec", rawConnect(fd, unix.AF_UNSPEC))
	say("bind", unix.Bind(fd, &unix.SockaddrInet4{}))
	listenInside(fd)
	return 0
}

// listenInside listens, and says whether it is inside of the sandbox, as UDP sockets are.
func listenInside(fd int) {
	say("listen", unix.Listen(fd, 1))
	fmt.Println("inside:", cookie(fd) == cookie(must(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))))
}

// cookie says in which network namespace a socket is.
func cookie(fd int) uint64 {
	return must(unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE))
}

// rawConnect is connect(2) with an address of nothing but a family.
func rawConnect(fd int, family uint16) error {
	a := unix.RawSockaddrInet4{Family: family}
	_, _, e := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&a)), unix.SizeofSockaddrInet4)
	if e != 0 {
		return e
	}
	return nil
}

func helpSockets([]string) int {
	for _, s := range []struct {
		name                   string
		domain, kind, protocol int
	}{
		{"tcp", unix.AF_INET, unix.SOCK_STREAM, 0}, {"udp6", unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP},
		{"unix", unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, {"netlink", unix.AF_NETLINK, unix.SOCK_RAW, 0},
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP}, {"packet", unix.AF_PACKET, unix.SOCK_DGRAM, 0},
		{"sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, {"seqpacket", unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP},
		{"mptcp", unix.AF_INET, unix.SOCK_STREAM, 262}, {"udplite", unix.AF_INET, unix.SOCK_DGRAM, 136},
		{"dccp", unix.AF_INET, 6, 33}, {"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0}, {"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	} {
		_, err := unix.Socket(s.domain, s.kind|unix.SOCK_CLOEXEC, s.protocol)
		say(s.name, err)
	}
	for i, nr := range []uintptr{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		_, _, e := syscall.Syscall(nr, 1, 0, 0)
		say("io_uring "+strconv.Itoa(i), e)
	}
	return 0
}

// helpFastOpen sends data along with what would be a connect.
func helpFastOpen(args []string) int {
	to := args[0]
	fd := tcp(to)
	say("sendto", unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, sockaddr(to)))
	say("sendmsg", unix.Sendmsg(fd, []byte("x"), nil, sockaddr(to), unix.MSG_FASTOPEN))
	_, _, e := syscall.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), 0, 0, unix.MSG_FASTOPEN, 0, 0)
	say("sendmmsg", e)
	say("option", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1))
	err := unix.Connect(fd, sockaddr(to))
	say("connect", err)
	_, err = unix.Write(fd, []byte("x"))
	say("write", err)
	return 0
}

// helpListen serves inside the sandbox and connects there.
func helpListen([]string) int {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "192.0.0.8:0"} {
		fd := tcp(at)
		say("bind", unix.Bind(fd, sockaddr(at)))
		say("listen", unix.Listen(fd, 5))
		to := must(unix.Getsockname(fd))
		for _, flags := range []int{0, unix.SOCK_NONBLOCK} {
			client := must(unix.Socket(family(at), unix.SOCK_STREAM|flags, 0))
			err := unix.Connect(client, to)
			if err == unix.EINPROGRESS {
				err = nil
			}
			say("connect", err)
			fl := must(unix.FcntlInt(uintptr(client), unix.F_GETFL, 0))
			fmt.Println(fl&unix.O_NONBLOCK == flags)
			server, _, err := unix.Accept(fd)
			say("accept", err)
			_, _ = unix.Write(server, []byte("hello\n"))
			poll(client, unix.POLLIN)
			hello(client)
		}
	}
	return 0
}

// helpServe serves one connection at a port inside, and says so when it can.
func helpServe(args []string) int {
	fd := tcp(args[0])
	must(0, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	must(0, unix.Bind(fd, sockaddr(args[0])))
	must(0, unix.Listen(fd, 1000))
	say("before", nil)
	for range must(strconv.Atoi(args[1])) {
		c, _, err := unix.Accept(fd)
		must(0, err)
		var b [64]byte
		n := must(unix.Read(c, b[:]))
		text := bytes.ToUpper(b[:n])
		if len(args) > 2 {
			text = bytes.Repeat(text, must(strconv.Atoi(args[2])))
		}
		must(unix.Write(c, text))
		_ = unix.Close(c)
	}
	return 0
}

// helpInside connects to addresses of the sandbox where nobody listens.
func helpInside(args []string) int {
	for _, to := range args {
		fd := tcp(to)
		say(to, unix.Connect(fd, sockaddr(to)))
	}
	return 0
}

func helpUnix([]string) int {
	l := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	must(0, unix.Bind(l, &unix.SockaddrUnix{Name: "/mnt/socket"}))
	say("listen", unix.Listen(l, 1))
	c := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	say("connect", unix.Connect(c, &unix.SockaddrUnix{Name: "/mnt/socket"}))
	n := must(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0))
	say("netlink", unix.Connect(n, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	d := must(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0))
	must(0, unix.Bind(d, &unix.SockaddrUnix{Name: "@abstract"}))
	say("sendto", unix.Sendto(must(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)), []byte("x"), 0, &unix.SockaddrUnix{Name: "@abstract"}))
	return 0
}

// helpBad makes calls with invalid addresses.
func helpBad(args []string) int {
	to := args[0]
	fd := tcp(to)
	a := unix.RawSockaddrInet4{Family: unix.AF_INET}
	connect := func(fd int, at unsafe.Pointer, n uintptr) error {
		_, _, e := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(at), n)
		if e != 0 {
			return e
		}
		return nil
	}
	page := must(unix.Mmap(-1, 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))
	must(0, unix.Munmap(page)) // and so nothing is there
	page = must(unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))
	say("nowhere", connect(fd, unsafe.Pointer(&page[0]), 1<<20))
	none := must(unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE))
	say("fault", connect(fd, unsafe.Pointer(&none[0]), 16))
	say("short", connect(fd, unsafe.Pointer(&a), 8))
	say("negative", connect(fd, unsafe.Pointer(&a), 1<<31))
	say("closed", connect(1000, unsafe.Pointer(&a), 16))
	say("file", connect(must(unix.Open("/dev/null", unix.O_RDONLY, 0)), unsafe.Pointer(&a), 16))
	a.Family = unix.AF_INET6
	say("family", connect(fd, unsafe.Pointer(&a), 28))
	a.Family = unix.AF_INET
	say("other family", connect(tcp("[::1]:1"), unsafe.Pointer(&a), 16))
	a.Family = unix.AF_UNIX
	say("unix", connect(fd, unsafe.Pointer(&a), 16))
	say("none", connect(fd, nil, 0))
	say("closed, fault", connect(1000, unsafe.Pointer(&none[0]), 16))
	return 0
}

// helpAddressed sends on a connected TCP socket to another address, which the kernel ignores, and looks at the address
// that a UDP socket would have.
func helpAddressed(args []string) int {
	fd := tcp(args[0])
	must(0, unix.Connect(fd, sockaddr(args[0])))
	say("sendto", unix.Sendto(fd, []byte("x"), 0, sockaddr(args[1])))
	say("sendmsg", unix.Sendmsg(fd, []byte("x"), nil, sockaddr(args[1]), 0))
	say("probe", unix.Connect(udp(args[1]), sockaddr(netip.AddrPortFrom(netip.MustParseAddrPort(args[1]).Addr(), 0).String())))
	return 0
}

// helpDefaults uses a socket inside, and then connects one that the kernel has made there.
func helpDefaults(args []string) int {
	say("inside", unix.Listen(tcp(args[0]), 1))
	fd := tcp(args[0])
	say("connect", unix.Connect(fd, sockaddr(args[0])))
	fmt.Println(must(unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)))
	return 0
}

// helpSizes sends messages of several sizes, and several in one with UDP_SEGMENT.
func helpSizes(args []string) int {
	fd := udp(args[0])
	must(0, unix.Connect(fd, sockaddr(args[0])))
	b := make([]byte, 70000)
	var all []string
	for _, n := range []int{0, 1, 1472, 9000, 65000} {
		must(unix.Write(fd, b[:n]))
		got := must(unix.Read(fd, b))
		all = append(all, strconv.Itoa(got-len("re:")))
	}
	fmt.Println(strings.Join(all, " "))
	must(0, unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 1000))
	must(unix.Write(fd, b[:10000]))
	count, size := 0, 0
	for range 10 {
		size = must(unix.Read(fd, b)) - len("re:")
		count++
	}
	fmt.Println("segments:", count, "of", size)
	return 0
}

// helpUDPSwap sends while another thread changes the address. Answers come only from where a message
// came to.
func helpUDPSwap(args []string) int {
	a := &unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: netip.MustParseAddrPort(args[0]).Addr().As4(), Port: portOf(args[0])}
	var done atomic.Bool
	var flip sync.WaitGroup
	flip.Go(func() {
		runtime.LockOSThread()
		port := (*[2]uint16)(unsafe.Pointer(a))
		for !done.Load() {
			port[1] = portOf(args[1])
			port[1] = portOf(args[0])
		}
	})
	fd := udp(args[0])
	good, bad := false, false
	for i := 0; i < 2000 || !good && i < 1_000_000; i++ {
		_, _, _ = syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&[]byte("ping")[0])), 4, 0, uintptr(unsafe.Pointer(a)), unix.SizeofSockaddrInet4)
		var b [16]byte
		for {
			_, from, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
			if err != nil {
				break
			}
			if fmt.Sprint(from) == fmt.Sprint(sockaddr(args[0])) {
				good = true
			} else {
				bad = true
			}
		}
	}
	done.Store(true)
	flip.Wait()
	if fmt.Print(good); !bad {
		fmt.Println(" only")
	}
	return 0
}

// helpUDPNone sends to an address from which nothing is to come.
func helpUDPNone(args []string) int {
	fd := udp(args[0])
	must(0, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}))
	must(0, unix.Sendto(fd, []byte("ping"), 0, sockaddr(args[0])))
	var b [16]byte
	_, err := again(func() (int, error) { return unix.Read(fd, b[:]) })
	fmt.Println(word(err))
	return 0
}

// helpUnused connects two UDP sockets, sends on one, waits to be told to go on, and sends on both.
func helpUnused(args []string) int {
	used, unused := udp(args[0]), udp(args[0])
	var b [64]byte
	ask := func(fd int) error {
		if _, err := unix.Write(fd, []byte("ping")); err != nil {
			return err
		}
		_, err := unix.Read(fd, b[:])
		return err
	}
	must(0, unix.Connect(used, sockaddr(args[0])))
	must(0, unix.Connect(unused, sockaddr(args[0])))
	say("before", ask(used))
	_, _ = os.Stdin.Read(b[:1])
	say("used", ask(used))
	say("unused", ask(unused))
	return 0
}

// helpInherited uses a TCP socket and a UDP one that it was started with.
func helpInherited(args []string) int {
	say("connect", unix.Connect(3, sockaddr(args[0])))
	say("sendto", unix.Sendto(4, []byte("x"), 0, sockaddr(args[0])))
	say("udp connect", unix.Connect(4, sockaddr(args[0])))
	return 0
}

// helpSource connects from addresses of the host, and tries to listen on one.
func helpSource(args []string) int {
	for range 2 {
		for _, from := range args[1:] {
			fd := tcp(from)
			say("bind", unix.Bind(fd, sockaddr(from)))
			to := netip.MustParseAddrPort(args[0])
			if family(from) == unix.AF_INET6 {
				to = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
			}
			say("connect", unix.Connect(fd, sockaddr(to.String())))
			switch a := must(unix.Getsockname(fd)).(type) {
			case *unix.SockaddrInet4:
				fmt.Println(netip.AddrFrom4(a.Addr))
			case *unix.SockaddrInet6:
				fmt.Println(netip.AddrFrom16(a.Addr))
			}
		}
		fd := tcp(args[1])
		say("bind", unix.Bind(fd, sockaddr(args[1])))
		say("listen", unix.Listen(fd, 1))
		fd = tcp(args[1])
		say("inside", unix.Bind(fd, sockaddr("127.0.0.1:0")))
		say("again", unix.Bind(fd, sockaddr(args[1])))
		fd = tcp(args[1])
		must(0, unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, 1))
		say("free", unix.Bind(fd, sockaddr(args[1])))
		say("connect", unix.Connect(fd, sockaddr(args[0])))
		fmt.Println(must(unix.Getsockname(fd)).(*unix.SockaddrInet4).Addr == netip.MustParseAddrPort(args[1]).Addr().As4())
		// From here on the next one is guessed to be used inside.
		say("", unix.Connect(tcp("127.0.0.1:1"), sockaddr("127.0.0.1:1")))
	}
	return 0
}

// startBefore starts a helper, and waits until it says "before: ok".
func startBefore(t *testing.T, c *nsexec.Cmd) (stdout io.Reader) {
	t.Helper()
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len("before: ok\n"))
	if _, err := io.ReadFull(stdout, buf); err != nil || string(buf) != "before: ok\n" {
		t.Fatalf("%q, %v", buf, err)
	}
	return stdout
}

// inTwoParts runs a helper that says "before: ok", and goes on when between is over; then it says want.
func inTwoParts(t *testing.T, c *nsexec.Cmd, between func() error, want string) {
	t.Helper()
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := startBefore(t, c)
	if err := between(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(stdout); err != nil || string(rest) != want {
		t.Errorf("got %q, %v, want %q", rest, err, want)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// helpRefused sets options that would have packets go another way, or make another socket.
func helpRefused([]string) int {
	fd := tcp("127.0.0.1:1")
	fd6 := tcp("[::1]:1")
	route := []byte{unix.IPPROTO_NONE, 0, 0, 0, 0, 0, 0, 0}
	say("device", unix.BindToDevice(fd, "lo"))
	say("device index", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, 1))
	say("source route", unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, "\x83\x07\x04\x7f\x00\x00\x01\x00"))
	say("unicast device", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_UNICAST_IF, 1<<24))
	say("routing header", unix.SetsockoptString(fd6, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(route)))
	say("packet options", unix.SetsockoptString(fd6, unix.IPPROTO_IPV6, unix.IPV6_2292PKTOPTIONS, string(route)))
	say("unicast device", unix.SetsockoptInt(fd6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_IF, 1<<24))
	say("protocol", unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "smc"))
	say("fast open", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1))
	fmt.Println(must(unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT)))
	for _, j := range []struct {
		name    string
		fd      int
		level   int
		address string // struct sockaddr
	}{
		{"group", fd, unix.IPPROTO_IP, "\x02\x00\x00\x00\xef\x42\x42\x01"},
		{"group of IPv6", fd6, unix.IPPROTO_IPV6, "\x0a\x00\x00\x00\x00\x00\x00\x00\xff\x15\x0e: nsrun test"},
		{"group of UDP", udp("127.0.0.1:1"), unix.IPPROTO_IP, "\x02\x00\x00\x00\xef\x42\x42\x01"},
	} {
		var group [136]byte // struct group_req
		group[0] = 1        // the loopback device
		copy(group[8:], j.address)
		say(j.name, unix.SetsockoptString(j.fd, j.level, unix.MCAST_JOIN_GROUP, string(group[:])))
	}
	source := make([]byte, 264) // struct group_source_req
	say("source", unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.MCAST_JOIN_SOURCE_GROUP, string(source)))
	say("source", unix.SetsockoptString(fd6, unix.IPPROTO_IPV6, unix.MCAST_JOIN_SOURCE_GROUP, string(source)))
	say("source", unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_ADD_SOURCE_MEMBERSHIP, "\xef\x42\x42\x01\x7f\x00\x00\x01\x7f\x00\x00\x01"))
	say("another", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	return 0
}

// helpWithin connects to an address outside, and then runs another helper with the address of a server inside.
func helpWithin(args []string) int {
	outside, name := args[0], args[1]
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), helperEnv+"=hello")
	out := must(c.StdoutPipe())
	must(0, c.Start())
	at := ""
	must(fmt.Fscan(out, &at))
	must(0, unix.Connect(tcp(outside), sockaddr(outside)))
	return become(name, at)
}

// helpGuess connects to an address inside at which no program listens, and then runs another helper.
func helpGuess(args []string) int {
	_ = unix.Connect(tcp("127.0.0.1:1"), sockaddr("127.0.0.1:1"))
	return become(args[1], args[0])
}

// become goes on as another helper.
func become(name string, args ...string) int {
	must(0, os.Setenv(helperEnv, name))
	must(0, syscall.Exec("/proc/self/exe", append([]string{os.Args[0]}, args...), os.Environ()))
	return 1
}

// helpHello says hello to each client, inside.
func helpHello([]string) int {
	l := must(net.Listen("tcp4", "127.0.0.1:0"))
	fmt.Println(l.Addr())
	for {
		c := must(l.Accept())
		go func() {
			_, _ = c.Write([]byte("hello\n"))
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}()
	}
}

// helpServer sets options as servers do, and looks at them where it listens.
func helpServer([]string) int {
	fd := must(unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0))
	second := must(unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0))
	instance := must(unix.EpollCreate1(0))
	must(0, unix.EpollCtl(instance, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: 7}))
	options := []struct{ level, name, v int }{
		{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}, {unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}, {unix.SOL_SOCKET, unix.SO_RCVBUF, 40000},
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0}, {unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 1}, {unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5},
	}
	var before []int
	for _, o := range options {
		must(0, unix.SetsockoptInt(fd, o.level, o.name, o.v))
		before = append(before, must(unix.GetsockoptInt(fd, o.level, o.name)))
	}
	say("bind", unix.Bind(fd, &unix.SockaddrInet6{}))
	port := must(unix.Getsockname(second)).(*unix.SockaddrInet6).Port
	say("listen", unix.Listen(second, 5))
	same := true
	for i, o := range options {
		same = same && must(unix.GetsockoptInt(fd, o.level, o.name)) == before[i]
	}
	fmt.Println("options:", same, "inside:", cookie(fd) == cookie(udp("127.0.0.1:1")))
	again := must(unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0))
	say("in use", unix.Bind(again, &unix.SockaddrInet6{Port: port}))
	client := tcp("127.0.0.1:1")
	say("connect", unix.Connect(client, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
	must(unix.Write(client, []byte("x")))
	n, e := event(instance)
	fmt.Println(n, e.Fd)
	_, _, err := unix.Accept(fd)
	say("accept", err)
	say("privileged", unix.Bind(tcp("127.0.0.1:1"), sockaddr("127.0.0.1:80")))
	return 0
}
