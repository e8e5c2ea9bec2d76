//go:build linux

package netpolicy_test

import (
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netcases"
	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/netpolicy"
)

// paper is a sandbox without sockets: what it tries, the model and the table are asked for.
type paper struct {
	t        testing.TB
	table    *netpolicy.Table
	resolver *netpolicy.Resolver
	passed   time.Duration
	mute     bool
}

func (p *paper) Advance(d time.Duration) { p.passed += d }

func (p *paper) Mute() { p.mute = true }

func (p *paper) Does(try netcases.Try) bool {
	return try.How != "open" && try.How != "join" && try.How != "tcp-kept" && try.How != "udp-kept" && try.How != "udp-probe"
}

func (p *paper) Do(a nettest.Attempt) nettest.Outcome {
	if a.How == "make" {
		return nettest.Outcome{OK: true}
	}
	if a.How == "dns" {
		if p.mute {
			return nettest.Outcome{}
		}
		b := p.resolver.Answer(p.t.Context(), a.Packet, a.TCP)
		return nettest.Outcome{OK: b != nil, Packet: b}
	}
	proto := netpolicy.TCP
	if a.How[0] == 'u' {
		proto = netpolicy.UDP
	}
	v := p.table.Decide(proto, a.Addr)
	if model := p.table.Policy().Allows(proto, a.Addr, p.table.Names(a.Addr.Addr())...); model != v.Allowed {
		p.t.Errorf("%v: the model says %v, the table %+v", a.Addr, model, v)
	}
	return nettest.Outcome{OK: v.Allowed}
}

func TestCases(t *testing.T) {
	if n := netcases.Count(netcases.All()); n < 250 {
		t.Errorf("there are only %d cases", n)
	}
	n := nettest.Run(t, func(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver) nettest.Sandbox {
		p := &paper{t: t, table: table, resolver: resolver}
		table.SetClock(func() time.Duration { return p.passed })
		return p
	})
	t.Logf("%d of %d tries", n, netcases.Count(netcases.All()))
}
