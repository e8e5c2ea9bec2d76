package broker_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// resolverAt is where programs of the sandbox find their resolver.
var resolverAt = netip.MustParseAddrPort("127.0.0.1:53")

// forTable are the options of a Broker that enforces a table.
func forTable(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver) broker.Options {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
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
		attachOptions(t, c, forTable(t, table, resolver))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = stdin.Close()
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
		return nettest.NewPipe(t, stdin, stdout, resolverAt)
	})
	t.Logf("%d tries", tried)
}
