package nsrun

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nsrun/nsrun/netpolicy"
)

// TestLearnNetNames: of two names with one address the rules have both.
func TestLearnNetNames(t *testing.T) {
	r := NewRunner(Config{Project: t.TempDir(), After: Discard})
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := r.openNetwork(&Request{LearnNet: true}, true)
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
	if got := n.result().Rules; !slices.Equal(got, []string{"tcp:a.test:443", "tcp:b.test:443"}) {
		t.Errorf("rules %q", got)
	}
}
