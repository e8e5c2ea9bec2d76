package kinds

import (
	"strings"
	"testing"

	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// TestKinds: every kind that has a name has its partner, with the same name, and leads back.
func TestKinds(t *testing.T) {
	for i := range 256 {
		k, r := overlay.Kind(i), project.Kind(i)
		if known := !strings.HasPrefix(k.String(), "kind("); known != (Registry(k) != 0) {
			t.Errorf("session's %d, %s: %d", i, k, Registry(k))
		} else if known && (Registry(k).String() != k.String() || Session(Registry(k)) != k) {
			t.Errorf("%s is %s", k, Registry(k))
		}
		if known := !strings.HasPrefix(r.String(), "kind("); known != (Session(r) != 0) {
			t.Errorf("registry's %d, %s: %d", i, r, Session(r))
		}
	}
}
