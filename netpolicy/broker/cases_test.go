//go:build linux

package broker_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// resolverAt is where programs of the sandbox find their resolver.
var resolverAt = netip.MustParseAddrPort("127.0.0.1:53")

// forTable are the options of a Broker that enforces a table, with a resolver until the context ends.
func forTable(ctx context.Context, table *netpolicy.Table, resolver *netpolicy.Resolver) broker.Options {
	return broker.Options{
		Decide:       func(p netpolicy.Proto, to netip.AddrPort) bool { return table.Decide(p, to).Allowed },
		HostLoopback: func(to netip.AddrPort) bool { return table.Decide(netpolicy.TCP, to).Allowed },
		Resolve: func(udp net.PacketConn, tcp net.Listener) {
			_ = resolver.Serve(ctx, udp, tcp)
		},
	}
}

// TestCases does what the model and the table are tested with in a real sandbox.
func TestCases(t *testing.T) {
	nettest.World(t)
	nettest.Controls(t)
	tried := nettest.Run(t, func(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver) nettest.Sandbox {
		c := command(exe(t))
		c.Env = append(nsexec.BaseEnv(), nettest.ProbeEnv+"=1", "GORACE=atexit_sleep_ms=0")
		c.Stderr = os.Stderr
		stdin, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		o := forTable(ctx, table, resolver)
		resolve, silent := o.Resolve, make(chan struct{})
		o.Resolve = func(udp net.PacketConn, tcp net.Listener) {
			defer close(silent)
			resolve(udp, tcp)
		}
		b := attachOptions(t, c, o)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = stdin.Close()
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
		return nettest.NewPipe(t, stdin, stdout, nettest.PipeOptions{
			DNS:  resolverAt,
			Mute: func() { cancel(); <-silent },
			Stop: b.Close,
		})
	})
	t.Logf("%d tries", tried)
}

// TestUnused: a UDP socket that was connected while a rule was there, and has sent nothing before that went,
// may not send. With the BPF programs it may.
func TestUnused(t *testing.T) {
	nettest.World(t)
	table, err := netpolicy.NewTable(nettest.Policy(t, []string{"udp:203.0.113.1:53"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	c := helper(t, "unused", "203.0.113.1:53")
	attachOptions(t, c, forTable(t.Context(), table, &netpolicy.Resolver{Table: table}))
	inTwoParts(t, c, func() error { return table.Update(netpolicy.Policy{}) }, "used: ok\nunused: ECONNREFUSED\n")
}

// TestInherited: sockets that were made outside reach no more than others. With the BPF programs
// they do.
func TestInherited(t *testing.T) {
	nettest.World(t)
	for _, allowed := range []bool{true, false} {
		var files []*os.File
		for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			fd, err := unix.Socket(unix.AF_INET, typ|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), "socket")
			defer f.Close()
			files = append(files, f)
		}
		c := helper(t, "inherited", "203.0.113.1:53")
		c.ExtraFiles = files
		r, want := allow(), "connect: ECONNREFUSED\nsendto: EPERM\nudp connect: ECONNREFUSED"
		if allowed { // the control
			r, want = allow("tcp:203.0.113.1:53", "udp:203.0.113.1:53"), "connect: ok\nsendto: ok\nudp connect: ok"
		}
		attach(t, c, r)
		if got := output(t, c); got != want {
			t.Errorf("allowed %v: got %q, want %q", allowed, got, want)
		}
	}
}

// TestSource: which of the host's addresses a connection comes from can be said, for none but TCP
// sockets that are connected to the outside, and not the port.
func TestSource(t *testing.T) {
	nettest.World(t)
	c := helper(t, "source", "203.0.113.1:53", "203.0.113.7:0", "[::ffff:203.0.113.8]:0", "203.0.113.7:4711")
	attach(t, c, allow("tcp:203.0.113.1:53"))
	want := `bind: ok
connect: ok
203.0.113.7
bind: ok
connect: ok
::ffff:203.0.113.8
bind: EADDRNOTAVAIL
connect: ok
203.0.113.1
bind: ok
listen: EADDRNOTAVAIL
inside: ok
again: EADDRNOTAVAIL
free: ok
connect: ok
false
: ECONNREFUSED
`
	if got := output(t, c); got+"\n" != want+want {
		t.Errorf("got %s", got)
	}
}

// TestRealPrograms has programs reach servers by rules about names.
func TestRealPrograms(t *testing.T) {
	nettest.Programs(t, testenv.Turn, func(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver, env []string, argv ...string) string {
		c := command(argv[0], argv[1:]...)
		c.Mounts = append(c.Mounts, resolvConf(t)...)
		c.Env = env
		attachOptions(t, c, forTable(t.Context(), table, resolver))
		return output(t, c)
	})
}

// resolvConf makes programs ask the sandbox's resolver.
func resolvConf(t testing.TB) mounts.Plan {
	t.Helper()
	path, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	return mounts.Plan{mounts.Data(path, []byte("nameserver "+resolverAt.Addr().String()+"\n")).RO().WithPerm(0o644)}
}
