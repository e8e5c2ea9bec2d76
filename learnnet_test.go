//go:build linux

package nsrun

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nsrun/nsrun/netpolicy"
)

// TestLearnNetNames: of two names with one address the rules have both, and of one with an address that names do not
// open both the address and the name.
func TestLearnNetNames(t *testing.T) {
	r := NewRunner(Config{Project: t.TempDir(), After: Discard})
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := r.openNetwork(&Request{LearnNet: true}, false, true)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	at := netip.MustParseAddrPort("203.0.113.1:443")
	for _, name := range []string{"a.test", "b.test"} {
		if _, err := n.table.Learn(name, []netpolicy.Answer{{Addr: at.Addr(), TTL: time.Minute}}); err != nil {
			t.Fatal(err)
		}
	}
	n.log.Add(netpolicy.TCP, at, n.table.Decide(netpolicy.TCP, at))
	private := netip.MustParseAddrPort("10.1.1.1:80")
	if _, err := n.table.Learn("c.test", []netpolicy.Answer{{Addr: private.Addr(), TTL: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	n.log.Add(netpolicy.TCP, private, n.table.Decide(netpolicy.TCP, private))
	if got := n.result().Rules; !slices.Equal(got, []string{"tcp:10.1.1.1:80", "tcp:a.test:443", "tcp:b.test:443", "tcp:c.test:80"}) {
		t.Errorf("rules %q", got)
	}
}
