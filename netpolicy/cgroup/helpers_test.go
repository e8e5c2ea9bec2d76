//go:build linux

package cgroup_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// helpers are the programs that this binary is besides being the test.
var helpers map[string]func(args []string) int

func init() {
	helpers = map[string]func([]string) int{"try": helpTry, "load": helpLoad, "pass": helpPass, "orphan": helpOrphan}
}

// helpTry reads one command a line, does it, and prints the result: "yes", or the error.
func helpTry([]string) int {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		f := strings.Fields(line)
		switch f[0] {
		case "listen":
			err = tryListen(f[1], in)
		case "storm":
			err = tryStorm(in, f[1])
		default:
			err = attempt(f[0], f[1:])
		}
		if err != nil {
			for e := errors.Unwrap(err); e != nil; e = errors.Unwrap(err) {
				err = e
			}
			fmt.Println(err)
		} else {
			fmt.Println("yes")
		}
	}
}

var errNoAnswer = errors.New("no answer")

func attempt(how string, args []string) error {
	switch how {
	case "open":
		return tryOpen(args[0])
	case "bind":
		return tryBind(args[0])
	case "join":
		return tryJoin(args[0])
	case "set":
		return trySet()
	case "share":
		return tryShare(args[0], args[1])
	case "own":
		return tryOwn(args[0])
	case "options":
		return tryOptions(args[0])
	case "bench":
		return tryBench(args[0], args[1], args[2])
	case "connection":
		return tryConnection(args[0], args[1:])
	case "connected":
		return tryConnected(args[0])
	case "resolve":
		return tryResolve(args[0], args[1])
	case "tell":
		return tryTell(args[0])
	case "pass":
		return tryPass()
	case "adopt":
		return tryAdopt(args[0])
	case "inherited":
		if err := unix.Connect(3, sockaddr(netip.MustParseAddrPort(args[0]))); err != nil {
			return err
		}
		if _, err := unix.Write(3, []byte("ask\n")); err != nil {
			return err
		}
		return answer(3)
	}
	base, rest, _ := strings.Cut(how, "-")
	mapped := false
	if r, ok := strings.CutSuffix("-"+rest, "-mapped"); ok {
		mapped, rest = true, strings.TrimPrefix(r, "-")
	}
	dst, err := netip.ParseAddrPort(bracket(args[0]))
	if err != nil {
		return err
	}
	if mapped {
		dst = netip.AddrPortFrom(netip.AddrFrom16(dst.Addr().As16()), dst.Port())
	}
	kind := unix.SOCK_STREAM
	if strings.HasPrefix(base, "udp") {
		kind = unix.SOCK_DGRAM
	}
	s, err := socket(dst, kind)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if kind == unix.SOCK_STREAM {
		return tryTCP(s, rest, dst)
	}
	return tryUDP(s, rest, dst)
}

// bracket puts brackets around an IPv6 address that is followed by a port.
func bracket(s string) string {
	if i := strings.LastIndexByte(s, ':'); strings.Count(s, ":") > 1 && s[0] != '[' {
		return "[" + s[:i] + "]" + s[i:]
	}
	return s
}

// socketPatience is how long a helper waits for an answer.
const socketPatience = time.Minute

func socket(dst netip.AddrPort, kind int) (int, error) {
	family := unix.AF_INET
	if dst.Addr().Is6() {
		family = unix.AF_INET6
	}
	s, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(int64(socketPatience))
	_ = unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	_ = unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	return s, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// rawSockaddr is a sockaddr as the kernel takes it.
func rawSockaddr(a netip.AddrPort) []byte {
	port := []byte{byte(a.Port() >> 8), byte(a.Port())}
	if a.Addr().Is6() {
		ip := a.Addr().As16()
		return slices.Concat([]byte{unix.AF_INET6, 0}, port, make([]byte, 4), ip[:], make([]byte, 4))
	}
	ip := a.Addr().As4()
	return slices.Concat([]byte{unix.AF_INET, 0}, port, ip[:], make([]byte, 8))
}

// sendmsg is sendmsg(2), or sendmmsg(2) with one message.
func sendmsg(s int, a netip.AddrPort, flags int, many bool) error {
	name := rawSockaddr(a)
	data := []byte("ask\n")
	iov := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	m := struct {
		unix.Msghdr
		n uint32
	}{Msghdr: unix.Msghdr{Name: &name[0], Namelen: uint32(len(name)), Iov: &iov, Iovlen: 1}}
	nr, count := uintptr(unix.SYS_SENDMSG), uintptr(flags)
	if many {
		nr, count = unix.SYS_SENDMMSG, 1
	}
	if _, _, e := unix.Syscall6(nr, uintptr(s), uintptr(unsafe.Pointer(&m)), count, uintptr(flags), 0, 0); e != 0 {
		return e
	}
	return nil
}

func tryTCP(s int, how string, dst netip.AddrPort) error {
	switch how {
	case "nonblock":
		if err := unix.SetNonblock(s, true); err != nil {
			return err
		}
		err := unix.Connect(s, sockaddr(dst))
		if err == unix.EINPROGRESS {
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(s), Events: unix.POLLOUT}}, 60_000); n != 1 {
				return errors.Join(err, errNoAnswer)
			}
			var e int
			if e, err = unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_ERROR); e != 0 {
				err = syscall.Errno(e)
			}
		}
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(s, false); err != nil {
			return err
		}
	case "fastopen":
		if err := unix.Sendto(s, []byte("ask\n"), unix.MSG_FASTOPEN, sockaddr(dst)); err != nil {
			return err
		}
	case "sendmsg":
		if err := sendmsg(s, dst, unix.MSG_FASTOPEN, false); err != nil {
			return err
		}
	default:
		if err := unix.Connect(s, sockaddr(dst)); err != nil {
			return err
		}
	}
	if how == "" || how == "nonblock" {
		if _, err := unix.Write(s, []byte("ask\n")); err != nil {
			return err
		}
	}
	return answer(s)
}

// answer reads what the servers answer.
func answer(s int) error {
	var b [16]byte
	n, err := unix.Read(s, b[:])
	if err == nil && string(b[:n]) != "answer\n" {
		err = errNoAnswer
	}
	return err
}

func tryUDP(s int, how string, dst netip.AddrPort) error {
	var err error
	switch how {
	case "connect":
		if err = unix.Connect(s, sockaddr(dst)); err == nil {
			_, err = unix.Write(s, []byte("ask\n"))
		}
	case "reconnect":
		nothing := [16]byte{}
		_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(s), uintptr(unsafe.Pointer(&nothing)), 16)
		err = unix.Sendto(s, []byte("ask\n"), 0, sockaddr(dst))
	case "sendmsg", "sendmmsg":
		err = sendmsg(s, dst, 0, how == "sendmmsg")
	default:
		err = unix.Sendto(s, []byte("ask\n"), 0, sockaddr(dst))
	}
	if err != nil {
		return err
	}
	return answer(s)
}

// tryOpen makes a socket of another kind.
func tryOpen(what string) error {
	if what == "abstract" {
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		return unix.Connect(s, &unix.SockaddrUnix{Name: abstractName})
	}
	const mptcp, smc, rds = 262, 43, 21
	kinds := map[string][3]int{
		"raw":          {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP},
		"raw6":         {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_UDP},
		"icmp":         {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
		"packet":       {unix.AF_PACKET, unix.SOCK_RAW, 0},
		"packet-dgram": {unix.AF_PACKET, unix.SOCK_DGRAM, 0},
		"vsock":        {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		"alg":          {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		"sctp":         {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
		"dccp":         {unix.AF_INET, 6, unix.IPPROTO_DCCP},
		"mptcp":        {unix.AF_INET, unix.SOCK_STREAM, mptcp},
		"udplite":      {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE},
		"xdp":          {unix.AF_XDP, unix.SOCK_RAW, 0},
		"bluetooth":    {unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
		"can":          {unix.AF_CAN, unix.SOCK_RAW, 1},
		"tipc":         {unix.AF_TIPC, unix.SOCK_STREAM, 0},
		"smc":          {smc, unix.SOCK_STREAM, 0},
		"rds":          {rds, unix.SOCK_SEQPACKET, 0},
		"netlink":      {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG},
		"route":        {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
		"unix":         {unix.AF_UNIX, unix.SOCK_STREAM, 0},
	}
	pair, of := strings.CutPrefix(what, "pair-of-")
	k, ok := kinds[pair]
	if !ok {
		return errors.New("no such kind of socket: " + what)
	}
	if of {
		fds, err := unix.Socketpair(k[0], k[1]|unix.SOCK_CLOEXEC, k[2])
		if err == nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
		}
		return err
	}
	s, err := unix.Socket(k[0], k[1]|unix.SOCK_CLOEXEC, k[2])
	if err == nil {
		unix.Close(s)
	}
	return err
}
