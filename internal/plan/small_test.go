//go:build linux

package plan

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// TestSmallHides: what is hidden stays hidden with the presets strict and workspace-root, also in the sandbox's own
// /proc and /dev, and where a rule shows the whole host.
func TestSmallHides(t *testing.T) {
	system := mounts.Plan{mounts.ROBind("/usr", "/usr")}
	whole := Rule{Access: Show, Found: []Found{{At: "/", Bind: mounts.ROBind("/", "/")}}}
	for _, c := range []struct {
		name   string
		policy Policy
		rules  []Rule
		path   string
		want   string
	}{
		{"strict, a secret that nothing shows", Policy{Strict: true}, nil, "/home/me/.ssh", private},
		{"strict, a secret of the whole host", Policy{Strict: true}, []Rule{whole}, "/home/me/.ssh", hidden},
		{"strict, the control", Policy{Strict: true}, []Rule{whole}, "/home/me/.bashrc", read},
		{"strict, what the whole host has", Policy{Strict: true}, []Rule{whole, {Access: Block, Found: []Found{{At: "/srv/x"}}}}, "/srv/x", hidden},
		{"strict, in /proc", Policy{Strict: true}, []Rule{{Access: Block, Found: []Found{{At: "/proc/version"}}}}, "/proc/version", hidden},
		{"strict, in /dev", Policy{Strict: true}, []Rule{{Access: Block, Found: []Found{{At: "/dev/zero"}}}}, "/dev/zero", hidden},
		{"workspace-root, in /proc", Policy{Root: true}, []Rule{{Access: Block, Found: []Found{{At: "/proc/version"}}}}, "/proc/version", hidden},
		{"workspace-root, in /dev", Policy{Root: true}, []Rule{{Access: Block, Found: []Found{{At: "/dev/zero"}}}}, "/dev/zero", hidden},
		{"workspace-root, in the workspace", Policy{Root: true}, []Rule{{Access: Block, Found: []Found{{At: "/home/me/src/x"}}}}, "/x", hidden},
	} {
		f := session(me(), "/home/me/src")
		f.System, f.Secrets, f.Rules = system, []string{"/home/me/.ssh", "/etc/shadow"}, c.rules
		s, _, err := Build(f, c.policy)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := seen(s.Mounts, c.path); got != c.want {
			t.Errorf("%s: %s is %s, not %s\n%s", c.name, c.path, got, c.want, text(s, nil, nil))
		}
	}
	for _, access := range []Access{Show, Write} {
		f := session(me(), "/home/me/src")
		f.System, f.Rules = system, []Rule{{Access: access, Found: whole.Found}}
		if _, _, err := Build(f, Policy{Root: true}); !errors.Is(err, errRoot) {
			t.Errorf("a rule for / over a workspace: %v", err)
		}
	}
}

// TestStrictShowsNoMore: in random worlds, the preset strict shows nothing that is hidden without it.
func TestStrictShowsNoMore(t *testing.T) {
	w := world{rand.New(rand.NewPCG(18, 3))}
	compared := 0
	for round := range testenv.Rounds(3000, 100_000) {
		f := w.facts()
		f.System = mounts.Plan{mounts.ROBind("/etc/a", "/etc/a")}
		if w.IntN(3) == 0 {
			whole := Rule{Access: Show, Found: []Found{{At: "/", Bind: mounts.ROBind("/", "/")}}}
			f.Rules = append([]Rule{whole}, f.Rules...)
		}
		usual, _, err := Build(f, Policy{})
		small, _, err2 := Build(f, Policy{Strict: true})
		if (err == nil) != (err2 == nil) {
			t.Fatalf("round %d: %v with strict, %v without", round, err2, err)
		}
		if err != nil {
			continue
		}
		for range 50 {
			at := w.path()
			before, after := seen(usual.Mounts, at), seen(small.Mounts, at)
			if before != hidden {
				continue
			}
			if compared++; after != hidden && after != private {
				t.Fatalf("round %d: %s is %s with strict, and hidden without\n%s", round, at, after, text(small, nil, nil))
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d paths were hidden", compared)
	}
}
