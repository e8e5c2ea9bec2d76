//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

func init() {
	insides["outside"], insides["exchange"], insides["named"], insides["ask"] = insideOutside, insideExchange, insideNamed, insideAsk
	insides["pending"], insides["linger"] = insidePending, insideLinger
}

// accepted counts the connections to a server on a loopback address.
func accepted(t *testing.T) (at netip.AddrPort, count *atomic.Int64) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	count = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			_, _ = c.Write([]byte("served"))
			_ = c.Close()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String()), count
}

// received counts the packets to a UDP port of a loopback address.
func received(t *testing.T) (at string, count *atomic.Int64) {
	p, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	count = new(atomic.Int64)
	go func() {
		for buf := make([]byte, 16); ; count.Add(1) {
			if _, _, err := p.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	return p.LocalAddr().String(), count
}

// insideOutside tries to send out of a sandbox. Its arguments are a TCP port that may be allowed, one that is not, and
// a UDP port. It prints what succeeded.
func insideOutside(args []string) int {
	allowed, other, udp := netip.MustParseAddrPort(args[0]), netip.MustParseAddrPort(args[1]), netip.MustParseAddrPort(args[2])
	to := func(at netip.AddrPort) unix.Sockaddr {
		return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	tell := func(name string, err error) { fmt.Println(name, err == nil) }
	for _, d := range []net.Dialer{{}, {LocalAddr: &net.TCPAddr{}}} {
		for _, at := range []netip.AddrPort{allowed, netip.AddrPortFrom(netip.AddrFrom16(allowed.Addr().As16()), allowed.Port())} {
			c, err := d.Dial("tcp", at.String())
			if err == nil {
				buf := make([]byte, 16)
				n, _ := c.Read(buf)
				fmt.Println("reply", string(buf[:n]))
				_ = c.Close()
			}
		}
	}
	_, err := net.Dial("tcp4", other.String())
	tell("another port", err)
	// A blocking socket; and then it is connected again.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Connect(fd, to(allowed))
	}
	fmt.Println("blocking", err == nil)
	none := [unix.SizeofSockaddrInet4]byte{}
	_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), uintptr(len(none)))
	tell("connected again", unix.Connect(fd, to(other)))
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to(other))
	}
	tell("fast open", err)
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err == nil {
		_ = unix.Sendto(fd, []byte("x"), 0, to(udp))
		_ = unix.Sendmsg(fd, []byte("x"), nil, to(udp), 0)
		err = unix.Connect(fd, to(udp))
	}
	tell("UDP", err)
	return 0
}

// TestLandlockRules: without namespaces, a command reaches what a rule names, by TCP, and nothing else.
func TestLandlockRules(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	needLandlock(t)
	dir := place(t)
	allowed, _ := accepted(t)
	other, others := accepted(t)
	udp, packets := received(t)
	args := []string{allowed.String(), other.String(), udp}
	r := runner(t, shown(t, nsrun.Config{
		Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, Backend: nsrun.LandlockBackend, Net: netpolicy.MustParse("tcp:" + allowed.String()),
	}))
	res, err := r.Run(t.Context(), insideRequest(t, "outside", args...))
	if err != nil {
		t.Fatal(err)
	}
	// A socket that is bound, which here means to a loopback address, reaches the server on that device, too.
	want := strings.Repeat("reply served\n", 4) + "another port false\nblocking true\nconnected again false\nfast open false\nUDP false\n"
	if res.Stdout.String() != want {
		t.Errorf("%s%s, want\n%s", res.Stdout.String(), res.Stderr.String(), want)
	}
	if others.Load() != 0 || packets.Load() != 0 {
		t.Errorf("%d connections and %d packets arrived", others.Load(), packets.Load())
	}
	if !slices.ContainsFunc(res.Network.Decisions, func(d netpolicy.Decision) bool {
		return !d.Allowed && d.Port == other.Port() && d.AllowWith == "--allow-net tcp:"+other.String()
	}) || res.Network.Mode != "broker" {
		t.Errorf("it is told: %+v", res.Network)
	}
	control := natively(t, dir, "outside", args...)
	testenv.Eventually(t, "three packets and two connections of the control", func() bool { return packets.Load() >= 2 && others.Load() >= 2 })
	if want := "another port true\nblocking true\nconnected again true\n"; !strings.Contains(control, want) || !strings.HasSuffix(control, "UDP true\n") {
		t.Errorf("the control:\n%s", control)
	}
}

// insideExchange connects sockets while a thread exchanges the address between one that may be allowed and another one.
func insideExchange(args []string) int {
	var shared [unix.SizeofSockaddrInet4]byte
	ports := [2]uint16{netip.MustParseAddrPort(args[0]).Port(), netip.MustParseAddrPort(args[1]).Port()}
	shared[0], shared[4], shared[7] = unix.AF_INET, 127, 1
	port := (*uint32)(unsafe.Pointer(&shared[0])) // family and port
	family := *port
	words := [2]uint32{}
	for i, p := range ports {
		words[i] = family | uint32(p>>8)<<16 | uint32(p&0xff)<<24
	}
	var done atomic.Bool
	var exchanged atomic.Uint32
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			atomic.StoreUint32(port, words[exchanged.Add(1)%2])
		}
	})
	for i := range uint32(100) {
		// On a busy machine all calls could be over before the other thread has begun.
		for before := exchanged.Load(); exchanged.Load()-before <= i; {
			runtime.Gosched()
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			continue
		}
		_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&shared)), uintptr(len(shared)))
		_ = unix.Close(fd)
	}
	done.Store(true)
	wg.Wait()
	return 0
}

// TestLandlockExchange: an address that changes while nsrun decides about it leads nowhere else.
func TestLandlockExchange(t *testing.T) {
	needLandlock(t)
	dir := place(t)
	allowed, reached := accepted(t)
	other, others := accepted(t)
	r := runner(t, shown(t, nsrun.Config{
		Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, Backend: nsrun.LandlockBackend, Net: netpolicy.MustParse("tcp:" + allowed.String()),
	}))
	output(t, r, insideRequest(t, "exchange", allowed.String(), other.String()))
	testenv.Eventually(t, "connections to what is allowed", func() bool { return reached.Load() > 0 })
	if n := others.Load(); n != 0 {
		t.Errorf("%d connections to what is not", n)
	}
	natively(t, dir, "exchange", allowed.String(), other.String())
	testenv.Eventually(t, "connections of the control", func() bool { return others.Load() > 0 })
}

// taken is a TCP socket that has a port of a loopback address, on which nobody listens.
func taken(t *testing.T) (fd int, at netip.AddrPort) {
	fd = socketOf(t, unix.SOCK_STREAM)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
}

func socketOf(t *testing.T, kind int) int {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// crowded is a server that accepts nobody, and whose queue is full.
func crowded(t *testing.T) netip.AddrPort {
	fd, at := taken(t)
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_ = unix.Connect(socketOf(t, unix.SOCK_STREAM|unix.SOCK_NONBLOCK), &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())})
	}
	return at
}

// insidePending connects sockets a second time, both during and after the first connect(2), and has a thread that waits
// for a connection, by TCP and to a unix socket, handle a signal. Its arguments are three servers: one that accepts, a
// missing one, and one with a full queue.
func insidePending(args []string) int {
	at := func(i int) unix.Sockaddr {
		return &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(netip.MustParseAddrPort(args[i]).Port())}
	}
	socket := func(kind int) int {
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return fd
	}
	for i, name := range []string{"accepted", "refused", "crowded"} {
		results := map[string]bool{}
		for range 100 {
			fd := socket(unix.SOCK_STREAM | unix.SOCK_NONBLOCK)
			if err := unix.Connect(fd, at(i)); err != unix.EINPROGRESS && err != nil && err != unix.ECONNREFUSED {
				fmt.Println(err)
			}
			if i < 2 {
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
			}
			err := unix.Connect(fd, at(i))
			results[fmt.Sprint(err == nil || err == unix.EISCONN, " ", err == unix.EALREADY)] = true
			_ = unix.Close(fd)
		}
		fmt.Println(name, results)
	}
	fd := socket(unix.SOCK_STREAM)
	if n := handlesSignal(func() error { return unix.Connect(fd, at(2)) }, func() { _ = unix.Shutdown(fd, unix.SHUT_RDWR) }); n != 0 {
		return n
	}
	full := &unix.SockaddrUnix{Name: "full"}
	_ = os.Remove(full.Name)
	server, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(unix.Bind(server, full), unix.Listen(server, 0))
	}
	for err == nil {
		var client int
		if client, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0); err == nil {
			err = unix.Connect(client, full)
		}
	}
	fmt.Println(err)
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return handlesSignal(func() error { return unix.Connect(client, full) }, sync.OnceFunc(func() { _ = unix.Close(server) }))
}

// handlesSignal has a thread that waits in connect handle a signal; end makes connect fail.
func handlesSignal(connect func() error, end func()) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	thread, ended := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		ended <- connect()
	}()
	waits := strconv.Itoa(<-thread)
	for { // until the thread waits in the call
		if b, err := os.ReadFile("/proc/self/task/" + waits + "/syscall"); err == nil && strings.HasPrefix(string(b), strconv.Itoa(unix.SYS_CONNECT)+" ") {
			break
		}
		runtime.Gosched()
	}
	number, _ := strconv.Atoi(waits)
	_ = unix.Tgkill(os.Getpid(), number, unix.SIGUSR1)
	select {
	case s := <-signals:
		fmt.Println(s)
	case err := <-ended:
		fmt.Println("before the signal:", err)
		return 1
	}
	// The call is restarted, and waits until another thread ends it. Before that, end does nothing, so repeat it.
	for {
		select {
		case err := <-ended:
			fmt.Println("ended", err != nil)
			return 0
		default:
			end()
			runtime.Gosched()
		}
	}
}

// TestLandlockPending: for a command without namespaces, pending connections behave as the kernel makes them behave.
func TestLandlockPending(t *testing.T) {
	needLandlock(t)
	dir := place(t)
	accepts, _ := accepted(t)
	_, none := taken(t)
	args := []string{accepts.String(), none.String(), crowded(t).String()}
	r := runner(t, shown(t, nsrun.Config{
		Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, Backend: nsrun.LandlockBackend,
		Net: netpolicy.MustParse("tcp:"+args[0], "tcp:"+args[1], "tcp:"+args[2]),
	}))
	end := time.AfterFunc(testenv.Patience, func() { panic("a thread that waits for a connection handles no signal") })
	got := output(t, r, insideRequest(t, "pending", args...))
	end.Stop()
	if want := natively(t, dir, "pending", args...); got != want {
		t.Errorf("%s, natively\n%s", got, want)
	}
}

// insideLinger leaves nsrun the last descriptor of a socket that lingers, with data that nobody reads. It sends that
// descriptor over a socket for DNS queries, and closes others while nsrun connects them. Its argument is a server that
// reads nothing.
func insideLinger(args []string) int {
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(netip.MustParseAddrPort(args[0]).Port())}
	fill := func(fd int) {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600})
		_ = unix.Connect(fd, at)
		for err := error(nil); err == nil; {
			_, err = unix.Write(fd, make([]byte, 1<<20))
		}
	}
	query, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = unix.Connect(fd, at)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
	fill(fd)
	on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LINGER) // the first of two numbers
	fmt.Println("it lingers", err == nil && on != 0)
	_ = unix.Sendmsg(query, []byte("?"), unix.UnixRights(fd), nil, 0)
	return 0
}

// TestLandlockLinger: the end of a command does not wait for a socket that it leaves to nsrun.
func TestLandlockLinger(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	needLandlock(t)
	dir := place(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the kernel resets the connections that nobody accepted
	hangs := time.AfterFunc(testenv.Patience, func() {
		t.Error("nsrun waits for the command's socket")
		_ = l.Close()
	})
	defer hangs.Stop()
	r := runner(t, shown(t, nsrun.Config{
		Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, Backend: nsrun.LandlockBackend, Net: netpolicy.MustParse("tcp:" + l.Addr().String()),
	}))
	if got := output(t, r, insideRequest(t, "linger", l.Addr().String())); got != "it lingers false\n" {
		t.Error(got)
	}
}

// insideAsk asks a name server that does not exist for a name, by UDP, with and without connect(2), and by TCP. It
// prints the addresses.
func insideAsk(args []string) int {
	query, err := (&dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(args[0] + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}).Pack()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	server := &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 53}, Port: 53}
	for _, way := range []string{"udp", "sendto", "tcp"} {
		kind, before := unix.SOCK_DGRAM, 0
		if way == "tcp" {
			kind, before = unix.SOCK_STREAM, 2
			query = append([]byte{0, byte(len(query))}, query...)
		}
		fd, err := unix.Socket(unix.AF_INET, kind, 0)
		switch {
		case err != nil:
		case way == "sendto":
			err = unix.Sendto(fd, query, 0, server)
		default:
			if err = unix.Connect(fd, server); err == nil {
				_, err = unix.Write(fd, query)
			}
		}
		buf := make([]byte, 512)
		n := 0
		if err == nil {
			n, err = unix.Read(fd, buf)
		}
		var m dnsmessage.Message
		if err == nil {
			err = m.Unpack(buf[min(before, n):n])
		}
		if err != nil {
			fmt.Println(way, err)
			continue
		}
		fmt.Print(way, " ", m.RCode)
		for _, a := range m.Answers {
			fmt.Print(" ", net.IP(a.Body.(*dnsmessage.AResource).A[:]))
		}
		fmt.Println()
	}
	return 0
}

// TestLandlockQueries: whatever name server a command without namespaces asks, nsrun answers.
func TestLandlockQueries(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	needLandlock(t)
	r := runner(t, shown(t, nsrun.Config{
		Project: filepath.Join(place(t), "p"), Mode: nsrun.Direct, Backend: nsrun.LandlockBackend, Net: netpolicy.MustParse("example.org:443"),
	}))
	for name, want := range map[string]string{"localhost": "RCodeSuccess 127.0.0.1", "refused.example": "RCodeNameError"} {
		got := output(t, r, insideRequest(t, "ask", name))
		if got != "udp "+want+"\nsendto "+want+"\ntcp "+want+"\n" {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// insideNamed is a host with a name server and a web server, and starts a command without namespaces there. Its
// argument is its directory.
func insideNamed(args []string) int {
	fail := func(err error) int { fmt.Println(err); return 1 }
	conf := filepath.Join(args[0], "resolv.conf")
	for _, c := range [][]string{
		{"ip", "link", "set", "lo", "up"}, {"ip", "address", "add", "198.51.100.7/32", "dev", "lo"}, {"mount", "--bind", conf, "/etc/resolv.conf"},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fail(fmt.Errorf("%s: %w: %s", c, err, out))
		}
	}
	servers, err := net.ListenPacket("udp4", "127.0.0.1:53")
	if err != nil {
		return fail(err)
	}
	go answerAll(servers, [4]byte{198, 51, 100, 7})
	web, err := net.Listen("tcp4", "198.51.100.7:80")
	if err != nil {
		return fail(err)
	}
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("served\n"))
			_ = c.Close()
		}
	}()
	policy := netpolicy.MustParse("example.org:80")
	policy.HostAddrs = []netip.Addr{} // the web server's is another host's
	r := nsrun.NewRunner(nsrun.Config{
		Project: filepath.Join(args[0], "p"), After: nsrun.Discard, Backend: nsrun.LandlockBackend, Net: policy, StateDir: filepath.Join(args[0], "state"),
	})
	defer r.Close()
	res, err := r.Run(context.Background(), nsrun.Request{Args: []string{"bash", "-c",
		"exec 3<>/dev/tcp/198.51.100.7/80 || exec 3<>/dev/tcp/example.org/80; cat <&3; exec 4<>/dev/tcp/example.com/80"}})
	if err != nil {
		return fail(err)
	}
	fmt.Print(res.Stdout.String(), res.Stderr.String())
	return 0
}

// answerAll answers each query with one address.
func answerAll(p net.PacketConn, address [4]byte) {
	for buf := make([]byte, 4096); ; {
		n, from, err := p.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: address},
			}}
		}
		if b, err := m.Pack(); err == nil {
			_, _ = p.WriteTo(b, from)
		}
	}
}

// TestLandlockNames: without namespaces, too, a rule with a name opens the addresses of that name once the command has
// resolved it.
func TestLandlockNames(t *testing.T) {
	needLandlock(t)
	for _, program := range []string{"ip", "bash", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Skip(t, program, "the test's network takes it")
		}
	}
	dir := place(t)
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self(t), dir)
	c.Env = append(os.Environ(), insideEnv+"=named", "GORACE=atexit_sleep_ms=0")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	c.WaitDelay = testenv.Patience
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(out); !strings.HasPrefix(got, "served\n") || !strings.Contains(got, "198.51.100.7/80: Connection refused") || !strings.Contains(got, "example.com: ") {
		t.Errorf("%s", got)
	}
}
