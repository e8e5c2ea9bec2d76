//go:build linux

package broker_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// TestUpdates: while the rules change a hundred times a second, no verdict is wrong, and no call hangs. With NSRUN_LONG
// it runs for a minute, or for the time that NSRUN_LONG says (10m).
func TestUpdates(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	long := 500 * time.Millisecond
	if d, err := time.ParseDuration(os.Getenv("NSRUN_LONG")); err == nil {
		long = d
	} else if testenv.Long() {
		long = time.Minute
	}
	allowed, _ := counter(t)
	denied, wrong := counter(t)
	sometimes, _ := counter(t)
	policies := [2]netpolicy.Policy{policy(t, allowed), policy(t, allowed, sometimes)}
	table, err := netpolicy.NewTable(policies[0])
	if err != nil {
		t.Fatal(err)
	}
	o := broker.Options{
		Decide:       func(p netpolicy.Proto, to netip.AddrPort) bool { return table.Decide(p, to).Allowed },
		HostLoopback: func(netip.AddrPort) bool { return true },
	}
	var said [8]string
	var all sync.WaitGroup
	for i := range said {
		c := helper(t, "storm", allowed.String(), denied.String(), sometimes.String(), long.String())
		attachOptions(t, c, o)
		all.Go(func() {
			out, err := c.CombinedOutput()
			if said[i] = strings.TrimSpace(string(out)); err != nil {
				said[i] += " " + err.Error()
			}
		})
	}
	// What the Go runtime does at times, it does all the time.
	stop := make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			tasks, _ := os.ReadDir("/proc/self/task")
			for _, task := range tasks {
				if tid, err := strconv.Atoi(task.Name()); err == nil {
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
				}
			}
		}
	})
	defer func() { close(stop); signals.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	updates := 0
	for end := time.Now().Add(long); time.Now().Before(end); updates++ {
		<-tick.C
		if err := table.Update(policies[updates%2]); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	tries := 0
	for _, s := range said {
		n := 0
		if _, err := fmt.Sscanf(s, "%d tries", &n); err != nil || n == 0 {
			t.Errorf("a process says %q", s)
		}
		tries += n
	}
	if n := settle(t, denied, wrong); n != 0 {
		t.Errorf("%d connections to the denied server", n)
	}
	t.Logf("%d tries, %d updates", tries, updates)
}

func policy(t *testing.T, ports ...netip.AddrPort) (p netpolicy.Policy) {
	t.Helper()
	for _, port := range ports {
		r, err := netpolicy.Parse("tcp:" + port.String())
		if err != nil {
			t.Fatal(err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

// helpStorm connects to an allowed server, a denied one, one that is allowed at times, and one inside,
// until its time is up, on two threads.
func helpStorm(args []string) int {
	end := time.Now().Add(must(time.ParseDuration(args[3])))
	l := must(net.Listen("tcp", "192.0.0.8:0"))
	go func() {
		for {
			_ = must(l.Accept()).Close()
		}
	}()
	servers := append(args[:3:3], l.Addr().String())
	var tries [2]int
	var wrong [2]error
	var all sync.WaitGroup
	for i := range tries {
		all.Go(func() {
			for ; wrong[i] == nil && (tries[i] == 0 || time.Now().Before(end)); tries[i]++ {
				k := rand.IntN(len(servers))
				err := attempt(servers[k], rand.IntN(2) == 0)
				if k == 0 && err != nil || k == 1 && err == nil || k == 3 && err != nil || err != nil && err != unix.ECONNREFUSED {
					wrong[i] = fmt.Errorf("server %d: %v", k, err)
				}
			}
		})
	}
	all.Wait()
	for _, err := range wrong {
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println(tries[0]+tries[1], "tries")
	return 0
}

// attempt connects and disconnects.
func attempt(to string, wait bool) error {
	fd := tcp(to)
	defer unix.Close(fd)
	must(0, unix.SetNonblock(fd, !wait))
	// A call that a signal interrupted goes on, and the next one says how it stands.
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Connect(fd, sockaddr(to))
	}
	if err == unix.EINPROGRESS || err == unix.EALREADY {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		for n := 0; n == 0; {
			if n, err = unix.Poll(p, 60_000); err == unix.EINTR {
				n = 0
			} else if err == nil && n == 0 {
				return unix.ETIMEDOUT
			}
		}
		if err = nil; p[0].Revents&unix.POLLERR != 0 {
			err = unix.Errno(must(unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)))
		}
	}
	if err == nil || err == unix.EISCONN {
		_, err = unix.Getpeername(fd)
	}
	// Not to use up all ports.
	must(0, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	return err
}
