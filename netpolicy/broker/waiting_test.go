//go:build linux

package broker_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// TestManyWait: a command that begins many connects to where nobody answers holds few descriptors of this process. The
// connects beyond the limit fail, and are counted.
func TestManyWait(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const more = 10
	for _, landlock := range []bool{true, false} {
		c := helper(t, "crowd", strconv.Itoa(more), strconv.FormatBool(landlock))
		b := attach(t, c, allow())
		if !landlock {
			b.WithoutLandlock()
			b.Attach(c)
		}
		before := openFiles(t)
		inTwoParts(t, c, func() error {
			n := openFiles(t) - before
			if n < broker.MaxWaiting {
				t.Errorf("%d connects hold %d descriptors", broker.MaxWaiting, n)
			}
			// Now and then each looks at its caller for a moment, with one more.
			testenv.Eventually(t, "four descriptors for each connect", func() bool { return openFiles(t)-before <= 4*broker.MaxWaiting+100 })
			return nil
		}, "")
		if n := b.TurnedAway(); n != more {
			t.Errorf("%d connects were turned away, want %d", n, more)
		}
		b.Close() // which does not wait for long until all connects have ended
		testenv.Eventually(t, "few descriptors are left", func() bool { return openFiles(t)-before <= 20 })
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// helpCrowd connects so many sockets to where nobody answers that as many as it was told to fail. The others wait when
// it says so.
func helpCrowd(args []string) int {
	n := broker.MaxWaiting + must(strconv.Atoi(args[0]))
	sockets, connects := make([]int, n), make([]func() error, n)
	if args[1] == "true" {
		for i := range sockets { // of the host, which the broker has to exchange
			sockets[i] = tcp("127.0.0.1:1")
		}
		at, _ := crowded()
		crowd(at)
		for i := range sockets {
			to := *at.(*unix.SockaddrInet4) // connect(2) writes to it
			connects[i] = func() error { return connect(sockets[i], &to) }
		}
	} else {
		at := &unix.SockaddrUnix{Name: "/mnt/full"}
		l := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
		must(0, unix.Bind(l, at))
		must(0, unix.Listen(l, 0))
		for i := range sockets {
			sockets[i] = must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
			connects[i] = func() error { return connect(sockets[i], &unix.SockaddrUnix{Name: "/mnt/full"}) }
		}
		must(0, unix.Connect(must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)), at))
	}
	failed := make(chan error)
	for _, f := range connects {
		go func() { failed <- f() }()
	}
	for range n - broker.MaxWaiting {
		if err := <-failed; err != unix.EAGAIN {
			fmt.Println(err)
		}
	}
	say("before", nil)
	must(os.Stdin.Read(make([]byte, 1)))
	return 0
}
