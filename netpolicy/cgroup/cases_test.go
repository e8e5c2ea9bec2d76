package cgroup_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

// TestCases drives the kernel with the table that the model and the other enforcer are driven
// with.
func TestCases(t *testing.T) {
	leaks(t)
	p := load(t)
	nettest.World(t)
	tried := nettest.Run(t, func(t testing.TB, table *netpolicy.Table, r *netpolicy.Resolver) nettest.Sandbox {
		at, mute := serveNames(t, r)
		e := enforce(t, p, table, cgroup.Options{Resolver: at})
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := nsexec.Command(exe)
		c.Env = append(nsexec.BaseEnv(), nettest.ProbeEnv+"=1", "GORACE=atexit_sleep_ms=0")
		inside(c, e)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = c.Wait()
		})
		return nettest.NewPipe(t, in, out, nettest.PipeOptions{DNS: at, Mute: mute, Stop: func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}})
	})
	t.Logf("%d tries", tried)
	if tried < 250 {
		t.Errorf("only %d tries", tried)
	}
}

// serveNames serves a resolver until the end of the test, or before.
func serveNames(t testing.TB, r *netpolicy.Resolver) (at netip.AddrPort, end func()) {
	t.Helper()
	conns, err := net.Listen("tcp", "127.0.0.53:0")
	if err != nil {
		t.Fatal(err)
	}
	at = netip.MustParseAddrPort(conns.Addr().String())
	packets, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = r.Serve(ctx, packets, conns) })
	end = func() {
		stop()
		done.Wait()
		packets.Close()
		conns.Close()
	}
	t.Cleanup(end)
	return at, end
}
