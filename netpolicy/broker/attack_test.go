//go:build linux

package broker_test

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
)

// Attacks on servers that no rule allows, each of which helpers do as well as they can.
func TestAttacks(t *testing.T) {
	for _, c := range []kase{
		{"unspec", "unspec", []string{"ALLOWED", "OUTSIDE"}, `connect: ok
hello
unspec: ok
peer: ENOTCONN
denied: ECONNREFUSED
again: ok
hello
unspec: ok
bind: ok
listen: ok
inside: true`},
		{"passed", "passed", []string{"ALLOWED", "OUTSIDE"}, "connect: ok\nhello\ndenied: ECONNREFUSED\nlisten: ok\ninside: true"},
		{"listen on the host", "hostlisten", []string{"ALLOWED"}, "connect: ok\nhello\nlisten: ok\ninside: true"},
		{"fastopen", "fastopen", []string{"OUTSIDE"}, `sendto: ENOTSUP
sendmsg: ENOTSUP
sendmmsg: ENOTSUP
option: ok
connect: ECONNREFUSED
write: EPIPE`},
		{"options", "refused", nil, `device: EPERM
device index: EPERM
source route: EPERM
unicast device: EPERM
routing header: EPERM
packet options: EPERM
unicast device: EPERM
protocol: ENOENT
fast open: ok
0
group: EPERM
group of IPv6: EPERM
group of UDP: ok
source: EPERM
source: EPERM
source: EPERM
another: ok`},
		{"who waits", "unblock", nil, "answered"},
		{"ended by another thread", "abort", nil, "connect: ECONNRESET\nbind: ok"},
		{"hand over", "magic", nil, "0: ok\n6e73686f00000000: EINVAL\n6e73686f20000000: EINVAL"},
		{"sockets", "sockets", nil, `tcp: ok
udp6: ok
unix: ok
netlink: ok
raw: EPERM
packet: EAFNOSUPPORT
sctp: EPROTONOSUPPORT
seqpacket: EPERM
mptcp: EPROTONOSUPPORT
udplite: EPROTONOSUPPORT
dccp: EPERM
vsock: EAFNOSUPPORT
alg: EAFNOSUPPORT
io_uring 0: ENOSYS
io_uring 1: ENOSYS
io_uring 2: ENOSYS`},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

// counter counts who connects.
func counter(t testing.TB) (at netip.AddrPort, n *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n = new(atomic.Int32)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String()), n
}

// settle waits until who has connected before is counted, and leaves itself out.
func settle(t testing.TB, at netip.AddrPort, n *atomic.Int32) int32 {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.ReadAll(c) // until it was accepted, behind all others, and closed
	return n.Load() - 1
}

func TestSwapAddress(t *testing.T) {
	for _, name := range []string{"control", "broker"} {
		t.Run(name, func(t *testing.T) {
			allowed, n := counter(t)
			denied, m := counter(t)
			var out []byte
			var err error
			if name == "control" {
				c := exec.Command(exe(t), allowed.String(), denied.String(), denied.String())
				c.Env = append(os.Environ(), helperEnv+"=swap")
				out, err = c.CombinedOutput()
			} else {
				c := helper(t, "swap", allowed.String(), denied.String())
				attach(t, c, allow("tcp:"+allowed.String()))
				out, err = c.CombinedOutput()
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			hits, wrong := settle(t, allowed, n), settle(t, denied, m)
			t.Logf("%d connections to the allowed server, %d to the other one", hits, wrong)
			if hits == 0 || (wrong != 0) != (name == "control") {
				t.Errorf("%d connections to the allowed server, %d to the other one", hits, wrong)
			}
		})
	}
}

// A unix connect goes on with what is in memory and in the table of descriptors then, which is
// safe because the kernel itself refuses the sandbox's TCP connects.
func TestSwapDescriptor(t *testing.T) {
	if f := features.Get(features.LandlockTCP); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why) // the broker connects, see TestSwapDescriptorLocally
	}
	for _, c := range []struct {
		name, patience string
		landlock       bool
		want           string
	}{{"control", testenv.RaceTime.String(), false, "true"}, {"landlock", map[bool]string{false: "500ms", true: "5s"}[testenv.Long()], true, "false"}} {
		t.Run(c.name, func(t *testing.T) {
			allowed, _ := counter(t)
			denied, _ := counter(t)
			cmd := helper(t, "dup2race", allowed.String(), denied.String(), c.patience)
			attach(t, cmd, allow("tcp:"+allowed.String()))
			sandbox.Of(cmd).Supervisor.NoConnect = c.landlock
			if got := output(t, cmd); got != c.want {
				t.Errorf("reached the denied server: %s, want %s", got, c.want)
			}
		})
	}
}

// TestStopped: no call that makes a socket returns descriptor 0 because the Broker's process was stopped and continued.
func TestStopped(t *testing.T) {
	c := helper(t, "plenty")
	attach(t, c, allow())
	stop := exec.Command("/bin/sh", "-c", "for i in $(seq 100); do kill -STOP $PPID; kill -CONT $PPID; sleep 0.005; done")
	if err := stop.Start(); err != nil {
		t.Fatal(err)
	}
	if got, want := output(t, c), "0 of them were none"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := stop.Wait(); err != nil {
		t.Error(err)
	}
}
