//go:build linux

package wall

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(listenEnv); at != "" {
		listenOutside(at)
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

// TestManyBound: a command binds and closes many sockets. Few of them are remembered, but every one that listens is.
func TestManyBound(t *testing.T) {
	var s sockets
	defer s.close()
	bind := func() (ino uint64, fd sys.FD) {
		t.Helper()
		n, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(n, &st); err != nil {
			t.Fatal(err)
		}
		s.keep(st.Ino, sys.FD(n))
		if e := s.bindTo(st.Ino, sys.FD(n), netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); e != 0 {
			t.Fatal(e)
		}
		return st.Ino, sys.FD(n)
	}
	ino, listener := bind()
	if _, ok := s.take(ino); !ok || unix.Listen(int(listener), 1) != nil {
		t.Fatal("the socket does not listen")
	}
	defer listener.Close()
	name, err := unix.Getsockname(int(listener))
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(name.(*unix.SockaddrInet4).Port)
	const many = 2500
	for range many {
		ino, fd := bind()
		if _, ok := s.take(ino); ok { // the command has closed it, or connected
			fd.Close()
		}
	}
	if n := len(s.bound); n > 4*maxIdle {
		t.Errorf("%d of %d sockets are remembered", n, many)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	if got := s.server(at); got != ino {
		t.Errorf("the listening socket is %d, want %d", got, ino)
	}
	// The control: somebody else's.
	for _, bound := range []map[uint64]uint16{{}, {ino: port + 1}} {
		if s.bound = bound; s.server(at) != 0 {
			t.Errorf("another program's listener on %v counts as the command's", bound)
		}
	}
}

// TestConnectInterrupted: a connect that signals interrupt is not taken for one that has succeeded.
func TestConnectInterrupted(t *testing.T) {
	testenv.Once(t)
	testenv.Leaks(t)
	socket := func(flags int) int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	l := socket(0)
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 0); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(at.(*unix.SockaddrInet4).Port)
	own := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	for range 3 { // nobody is accepted any more
		_ = unix.Connect(socket(unix.SOCK_NONBLOCK), at)
	}
	var st unix.Stat_t
	if err := unix.Fstat(l, &st); err != nil {
		t.Fatal(err)
	}
	s := sockets{idle: map[uint64]sys.FD{}, bound: map[uint64]uint16{st.Ino: port}}
	if s.server(own) != st.Ino {
		t.Fatal("nobody listens")
	}
	stop := make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			tasks, _ := os.ReadDir("/proc/self/task")
			for _, task := range tasks {
				if tid, err := strconv.Atoi(task.Name()); err == nil {
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
				}
			}
		}
	})
	if e := s.connectTo(notify.Listener(sys.None), &dial{fd: sys.FD(socket(unix.SOCK_NONBLOCK))}, own, st.Ino); e != syscall.ETIMEDOUT {
		t.Errorf("nobody accepts it: %v", e)
	}
	close(stop)
	signals.Wait()
}

// TestPending: few connections are waited for at once, and one that fails closes no other socket.
func TestPending(t *testing.T) {
	testenv.Leaks(t)
	var s sockets
	socket := func() (ino uint64, fd sys.FD) {
		n, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(n, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.keep(st.Ino, sys.FD(n))
		return st.Ino, sys.FD(n)
	}
	nobody, end := notify.Listener(sys.None), make(chan struct{})
	for range MaxWaiting + 1 {
		ino, _ := socket()
		s.begin(nobody, told(unix.SYS_CONNECT), ino, func(*dial) syscall.Errno { <-end; return syscall.ECONNREFUSED })
	}
	s.mu.Lock()
	if len(s.pending) != MaxWaiting || len(s.idle) != 1 || s.turnedAway != 1 {
		t.Errorf("%d connections wait, %d do not, %d were turned away", len(s.pending), len(s.idle), s.turnedAway)
	}
	s.mu.Unlock()
	busy := make(map[uint64]sys.FD)
	for range maxIdle - MaxWaiting/2 {
		ino, fd := socket()
		busy[ino] = fd
	}
	close(end)
	s.running.Wait()
	if len(s.pending) != 0 || len(s.idle) != maxIdle || len(s.order) > maxIdle+MaxWaiting {
		t.Errorf("afterwards: %d, %d, %d", len(s.pending), len(s.idle), len(s.order))
	}
	for ino, fd := range busy {
		var st unix.Stat_t
		if s.idle[ino] != fd || unix.Fstat(int(fd), &st) != nil || st.Ino != ino {
			t.Fatalf("socket %d was closed", ino)
		}
	}
	s.close()
}

// TestEnded: a connection that fails after its command has ended belongs to nobody.
func TestEnded(t *testing.T) {
	testenv.Leaks(t)
	var s sockets
	n, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	const ino = 1
	s.keep(ino, sys.FD(n))
	begun := s.begin(notify.Listener(sys.None), told(unix.SYS_CONNECT), ino, func(*dial) syscall.Errno {
		for ended := false; !ended; {
			s.mu.Lock()
			ended = s.idle == nil
			s.mu.Unlock()
		}
		return syscall.ECONNREFUSED
	})
	if !begun {
		t.Fatal("no connection is begun")
	}
	s.close()
}

// TestEndedBefore: the end of a command does not wait for a connection that begins just then, and that nobody accepts.
func TestEndedBefore(t *testing.T) {
	testenv.Leaks(t)
	socket := func(kind int) int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	l := socket(0)
	defer unix.Close(l)
	if err := errors.Join(unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // nobody is accepted any more
		fd := socket(unix.SOCK_NONBLOCK)
		defer unix.Close(fd)
		_ = unix.Connect(fd, at)
	}
	var s sockets
	const ino = 1
	s.keep(ino, sys.FD(socket(0)))
	nobody := notify.Listener(sys.None)
	s.begin(nobody, told(unix.SYS_CONNECT), ino, func(p *dial) syscall.Errno {
		for ended := false; !ended; {
			s.mu.Lock()
			ended = s.idle == nil
			s.mu.Unlock()
		}
		_ = unix.Shutdown(int(p.fd), unix.SHUT_RDWR)
		return s.dialOutside(nobody, p, at)
	})
	s.close()
}
