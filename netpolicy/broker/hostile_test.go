//go:build linux

package broker_test

import (
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// A caller's other thread can make its socket wait while the Broker connects it. Only the caller is delayed: the
// embedding program goes on, and the Broker can be closed.
func TestChangedMeanwhile(t *testing.T) {
	at := full(t)
	c := helper(t, "flip", at.String())
	b := attach(t, c, allow("tcp:"+at.String()))
	startBefore(t, c)
	for range rounds(200) {
		began := time.Now()
		runtime.GC() // stops all threads
		if d := time.Since(began); d > testenv.Patience {
			t.Fatalf("the embedding program stood still for %v", d)
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	began := time.Now()
	b.Close()
	if d := time.Since(began); d > testenv.Patience {
		t.Errorf("Close took %v", d)
	}
}

// A socket whose error queue has something is ready all the time: a connect that waits does not take a processor.
func TestErrorQueue(t *testing.T) {
	c := helper(t, "errqueue")
	attach(t, c, allow())
	var before time.Duration
	inTwoParts(t, c, func() error { before = cpu(t); return nil }, "connect: EINPROGRESS\n")
	if d := cpu(t) - before; d > waits/2 {
		t.Errorf("a connect of %v has taken %v of a processor's time", waits, d)
	}
}

// waits is how long helpErrQueue's connect waits.
const waits = time.Second

// rounds is n with NSRUN_LONG, and usually a tenth of it.
func rounds(n int64) int64 {
	if testenv.Long() {
		return n
	}
	return n / 10
}

// A caller can close its socket while the Broker has a copy, whose end the kernel then waits for (SO_LINGER).
func TestLinger(t *testing.T) {
	c := helper(t, "linger")
	b := attach(t, c, allow())
	stdout := startBefore(t, c)
	stuck := time.AfterFunc(testenv.Patience, func() { _ = c.Process.Kill() })
	defer stuck.Stop()
	for range rounds(5000) {
		if _, err := io.CopyN(io.Discard, stdout, 1); err != nil {
			t.Error("the Broker hangs:", err)
			break
		}
		stuck.Reset(testenv.Patience)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	b.Close()
}

// helpLinger has one thread close a socket whose data nobody takes while another one connects it, and writes a
// byte each time.
func helpLinger([]string) int {
	at, accept := crowded()
	say("before", nil)
	sockets := make(chan int)
	go func() {
		for fd := range sockets {
			for end := time.Now().Add(rand.N(120 * time.Microsecond)); time.Now().Before(end); {
			}
			_ = unix.Close(fd)
		}
	}()
	for {
		fd := tcp("127.0.0.1:1")
		must(0, unix.Connect(fd, at))
		peer := accept()
		must(0, unix.SetNonblock(fd, true))
		for b := make([]byte, 64<<10); ; {
			if _, err := unix.Write(fd, b); err != nil {
				break
			}
		}
		must(0, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}))
		sockets <- fd
		_ = unix.Connect(fd, at)
		_ = unix.Close(peer)
		must(unix.Write(1, []byte(".")))
	}
}

// cpu is how much time of processors this process has had.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// crowded is a server inside that answers nobody any more.
func crowded() (at unix.Sockaddr, accept func() int) {
	l := tcp("127.0.0.1:1")
	must(0, unix.Bind(l, sockaddr("127.0.0.1:0")))
	must(0, unix.Listen(l, 0))
	at = must(unix.Getsockname(l))
	return at, func() int {
		fd, _, err := unix.Accept(l)
		return must(fd, err)
	}
}

func crowd(at unix.Sockaddr) {
	for range 3 {
		_ = unix.Connect(must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)), at)
	}
}

// helpErrQueue connects where nobody answers a socket that poll(2) calls ready all the time: it has a message in
// its error queue.
func helpErrQueue([]string) int {
	at, accept := crowded()
	fd := tcp("127.0.0.1:1")
	must(0, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1))
	must(0, unix.Connect(fd, at))
	accept()
	must(unix.SendmsgN(fd, make([]byte, 4096), nil, nil, unix.MSG_ZEROCOPY))
	poll(fd, 0)
	must(0, rawConnect(fd, unix.AF_UNSPEC))
	crowd(at)
	tv := unix.NsecToTimeval(waits.Nanoseconds())
	must(0, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
	say("before", nil)
	must(os.Stdin.Read(make([]byte, 1)))
	say("connect", connect(fd, at))
	return 0
}

// helpFlip has one thread remove O_NONBLOCK from a socket that another thread connects to an address where nobody
// answers.
func helpFlip(args []string) int {
	fd := tcp(args[0])
	var flip sync.WaitGroup
	flip.Go(func() {
		runtime.LockOSThread()
		for {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
		}
	})
	say("before", nil)
	for {
		_ = rawConnect(fd, unix.AF_UNSPEC)
		_ = unix.SetNonblock(fd, true)
		_ = unix.Connect(fd, sockaddr(args[0]))
	}
}
