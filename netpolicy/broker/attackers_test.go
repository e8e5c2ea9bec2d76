//go:build linux

package broker_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
)

// helpThreads connects on several threads that are not the first one.
func helpThreads(args []string) int {
	var all sync.WaitGroup
	var good atomic.Int32
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			for range 20 {
				fd := tcp(args[0])
				if unix.Connect(fd, sockaddr(args[0])) == nil {
					var b [6]byte
					if n, _ := unix.Read(fd, b[:]); string(b[:n]) == "hello\n" {
						good.Add(1)
					}
				}
				_ = unix.Close(fd)
			}
		})
	}
	all.Wait()
	fmt.Println(good.Load())
	return 0
}

// helpMany connects with Go's own network package, whose sockets are in an epoll instance
// before they are connected.
func helpMany(args []string) int {
	var all sync.WaitGroup
	var good atomic.Int32
	for range 8 {
		all.Go(func() {
			for range 20 {
				c, err := net.Dial("tcp", args[0])
				if err != nil {
					fmt.Println(err)
					continue
				}
				if line, _ := bufio.NewReader(c).ReadString('\n'); line == "hello\n" {
					good.Add(1)
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
	fmt.Println(good.Load())
	return 0
}

// helpFork connects in processes of its own.
func helpFork(args []string) int {
	for _, to := range args {
		c := exec.Command("/proc/self/exe", to)
		c.Env = append(os.Environ(), helperEnv+"=connect")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		must(0, c.Run())
	}
	return 0
}

// helpSwap connects while another thread changes the address between an allowed and a denied
// one. What it was connected to is visible from outside. It goes on until it was connected to each of the others.
func helpSwap(args []string) int {
	allowed, denied := portOf(args[0]), portOf(args[1])
	a := &unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 1}, Port: allowed}
	var done atomic.Bool
	var flip sync.WaitGroup
	flip.Go(func() {
		runtime.LockOSThread()
		port := (*[2]uint16)(unsafe.Pointer(a))
		for i := 0; !done.Load(); i++ {
			for _, p := range [...]uint16{denied, allowed} {
				port[1] = p
				for range i % 256 {
					runtime.KeepAlive(port)
				}
			}
		}
	})
	missing := map[string]bool{args[0]: true}
	for _, to := range args[2:] {
		missing[to] = true
	}
	good := 0
	end := time.Now().Add(testenv.RaceTime)
	for i := 0; i < 2000 || len(missing) > 0 && time.Now().Before(end); i++ {
		fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))
		if _, _, e := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(a)), unix.SizeofSockaddrInet4); e == 0 {
			good++
			if to, err := unix.Getpeername(fd); err == nil {
				delete(missing, fmt.Sprintf("127.0.0.1:%d", to.(*unix.SockaddrInet4).Port))
			}
		}
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		_ = unix.Close(fd)
	}
	done.Store(true)
	flip.Wait()
	fmt.Println(good > 0)
	return 0
}

// portOf is an address's port as it is in memory.
func portOf(to string) uint16 {
	p := sockaddr(to).(*unix.SockaddrInet4).Port
	return uint16(p<<8 | p>>8)
}

// helpDup2Race connects a unix socket. Meanwhile another thread puts an unconnected socket of the host in its place,
// and changes the address to that of a denied server. It tries until the socket is connected to that server, or time is
// up.
func helpDup2Race(args []string) int {
	allowed, denied := args[0], args[1]
	patience := must(time.ParseDuration(args[2]))
	host := tcp(allowed)
	must(0, unix.Connect(host, sockaddr(allowed)))
	must(0, rawConnect(host, unix.AF_UNSPEC))
	const number = 50
	plain := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	var a [unix.SizeofSockaddrInet4]byte
	in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a))
	in.Addr, in.Port = [4]byte{127, 0, 0, 1}, portOf(denied)
	must(0, unix.Dup3(plain, number, 0))
	var cpus unix.CPUSet
	must(0, unix.SchedGetaffinity(0, &cpus))
	runtime.LockOSThread()
	pin(cpus, 0)
	var done atomic.Bool
	var flip sync.WaitGroup
	flip.Go(func() {
		runtime.LockOSThread()
		pin(cpus, 1)
		// How long it is between the broker's look and the kernel's is not known.
		hold := func() {
			for end := time.Now().Add(rand.N(40 * time.Microsecond)); time.Now().Before(end); {
			}
		}
		for !done.Load() {
			in.Family = unix.AF_UNIX
			_ = unix.Dup3(plain, number, 0)
			hold()
			_ = unix.Dup3(host, number, 0)
			in.Family = unix.AF_INET
			hold()
		}
	})
	won := false
	for end := time.Now().Add(patience); !won && time.Now().Before(end); {
		_, _, e := syscall.Syscall(unix.SYS_CONNECT, number, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
		if to, err := unix.Getpeername(host); e == 0 && err == nil {
			won = fmt.Sprint(to) == fmt.Sprint(sockaddr(denied))
		}
		_ = rawConnect(host, unix.AF_UNSPEC)
	}
	done.Store(true)
	flip.Wait()
	fmt.Println(won)
	return 0
}

// pin makes the thread run on the i-th of some processors. The thread that swaps has to run at the same time as the one
// that is fooled, and some kernels put both on one processor.
func pin(cpus unix.CPUSet, i int) {
	i %= cpus.Count()
	for cpu := 0; ; cpu++ {
		if !cpus.IsSet(cpu) {
			continue
		}
		if i == 0 {
			var one unix.CPUSet
			one.Set(cpu)
			must(0, unix.SchedSetaffinity(0, &one))
			return
		}
		i--
	}
}

// helpOrphan connects, says so, waits to be told to go on, and connects again.
func helpOrphan(args []string) int {
	fd, unused := tcp(args[0]), tcp(args[0])
	say("before", unix.Connect(fd, sockaddr(args[0])))
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	say("socket", err)
	say("connect", unix.Connect(unused, sockaddr(args[0])))
	u := udp(args[0])
	say("sendto", unix.Sendto(u, []byte("x"), 0, sockaddr(args[0])))
	say("bind", unix.Bind(unused, sockaddr("127.0.0.1:0")))
	say("listen", unix.Listen(unused, 1))
	_, err = unix.Write(fd, []byte("x"))
	say("write", err)
	return 0
}

// helpUnblock makes a socket wait at the moment when it is connected to a listener that answers nobody. It reports
// whether others get answers meanwhile.
func helpUnblock([]string) int {
	to, _ := crowded()
	crowd(to)
	quick := func() int {
		fd := tcp("127.0.0.1:0")
		must(0, unix.SetNonblock(fd, true))
		must(0, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SYNCNT, 127))
		return fd
	}
	var next, ended atomic.Int32
	go func() {
		runtime.LockOSThread()
		for {
			if fd := next.Swap(0); fd != 0 {
				_ = unix.Connect(int(fd), to)
				ended.Store(fd)
			}
		}
	}()
	time.AfterFunc(testenv.Patience, func() {
		fmt.Println("hangs")
		os.Exit(0)
	})
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		fd := quick()
		next.Store(int32(fd))
		for t, n := time.Now(), rand.N(60*time.Microsecond); time.Since(t) < n; {
		}
		must(0, unix.SetNonblock(fd, false))
		_ = unix.Close(tcp("127.0.0.1:0"))
		for ended.Load() != int32(fd) {
			_ = unix.Shutdown(fd, unix.SHUT_RDWR) // where it waits, and as it has to
		}
		ended.Store(0)
		_ = unix.Close(fd)
	}
	fmt.Println("answered")
	return 0
}

// helpAbort interrupts, from another thread, a connect to a listener that answers nobody.
func helpAbort([]string) int {
	to, _ := crowded()
	crowd(to)
	fd := tcp("127.0.0.1:0")
	go func() {
		const synSent = 2 // TCP_SYN_SENT
		for {             // again, where the broker put another socket in its place meanwhile
			if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && info.State == synSent {
				_ = unix.Shutdown(fd, unix.SHUT_RDWR)
			}
		}
	}()
	time.AfterFunc(testenv.Patience, func() {
		fmt.Println("hangs")
		os.Exit(0)
	})
	say("connect", unix.Connect(fd, to))
	say("bind", unix.Bind(fd, sockaddr("127.0.0.1:0"))) // as one that was never connected
	return 0
}

// helpPlenty makes sockets for two seconds.
func helpPlenty([]string) int {
	none := 0
	for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); {
		if fd := tcp("127.0.0.1:1"); fd <= 2 {
			none++
		} else {
			_ = unix.Close(fd)
		}
	}
	fmt.Println(none, "of them were none")
	return 0
}

// helpMagic sends as only the set-up may.
func helpMagic([]string) int {
	p := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0))
	m := unix.Msghdr{}
	for _, flags := range []uint64{0, sandbox.HandOver << 32, sandbox.HandOver<<32 | unix.MSG_FASTOPEN} {
		_, _, e := syscall.Syscall(unix.SYS_SENDMSG, uintptr(p[0]), uintptr(unsafe.Pointer(&m)), uintptr(flags))
		say(strconv.FormatUint(flags, 16), e)
	}
	return 0
}

// helpPassed passes a connected socket on to itself and uses it.
func helpPassed(args []string) int {
	allowed, denied := args[0], args[1]
	p := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	fd := tcp(allowed)
	say("connect", unix.Connect(fd, sockaddr(allowed)))
	must(0, unix.Sendmsg(p[0], []byte{0}, unix.UnixRights(fd), nil, 0))
	_ = unix.Close(fd)
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(p[1], b[:], control, 0)
	must(0, err)
	got := must(unix.ParseUnixRights(&must(unix.ParseSocketControlMessage(control[:n]))[0]))[0]
	hello(got)
	say("denied", unix.Connect(got, sockaddr(denied)))
	must(0, rawConnect(got, unix.AF_UNSPEC))
	listenInside(got)
	return 0
}

// helpHostListen has the server end a connection, and tries to listen on what is left.
func helpHostListen(args []string) int {
	fd := tcp(args[0])
	say("connect", unix.Connect(fd, sockaddr(args[0])))
	hello(fd)
	_ = unix.Shutdown(fd, unix.SHUT_WR)
	var b [8]byte
	for {
		if n, err := unix.Read(fd, b[:]); n <= 0 || err != nil {
			break
		}
	}
	_ = rawConnect(fd, unix.AF_UNSPEC)
	listenInside(fd)
	return 0
}

// helpBench connects and prints the median in nanoseconds. As the programs that are not Go ones
// do, without a scheduler of its own that looks at how long a call takes.
func helpBench(args []string) int {
	runtime.LockOSThread()
	n := must(strconv.Atoi(args[1]))
	all := make([]time.Duration, 0, n)
	a := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: portOf(args[0]), Addr: [4]byte{127, 0, 0, 1}}
	for range n {
		fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		t := time.Now()
		_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&a)), unix.SizeofSockaddrInet4)
		all = append(all, time.Since(t))
		must(0, func() error {
			if e != 0 {
				return e
			}
			return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}())
		_ = unix.Close(fd)
	}
	slices.Sort(all)
	fmt.Println(all[len(all)/2].Nanoseconds(), all[len(all)*99/100].Nanoseconds())
	return 0
}

// helpAcceptor accepts connections, for ever.
func helpAcceptor([]string) int {
	l := tcp("127.0.0.1:0")
	must(0, unix.Bind(l, sockaddr("127.0.0.1:0")))
	must(0, unix.Listen(l, 1024))
	fmt.Printf("127.0.0.1:%d\n", must(unix.Getsockname(l)).(*unix.SockaddrInet4).Port)
	for {
		if fd, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(l), 0, 0, 0, 0, 0); e == 0 {
			_ = unix.Close(int(fd))
		}
	}
}
