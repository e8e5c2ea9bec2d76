//go:build linux

package cgroups

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// TestReachable: a cgroup is reachable if this user can write to it, at any depth. Cgroups of other users are not.
// Ordinary directories stand in for cgroups, because only the permission to write counts.
func TestReachable(t *testing.T) {
	testenv.NeedUser(t)
	for _, tc := range []struct {
		name, options string
		open          string // what can be written to
		want          bool
	}{
		{"nothing", "rw", "", false}, {"its own", "rw", "own", true}, {"one below", "rw", "own/a/b", true}, {"beside", "rw", "other", false},
		{"its own, which the kernel keeps", "rw,nsdelegate", "own", false}, {"below that", "rw,nsdelegate", "own/a", true},
	} {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "own/a/b/", "other/")
		list := []string{"other", "own/a/b", "own/a", "own"}
		for _, name := range list {
			if name != tc.open {
				if err := os.Chmod(filepath.Join(dir, name), 0o555); err != nil {
					t.Fatal(err)
				}
			}
		}
		left := mostLooked
		infos := []mounts.Info{{Root: "/", Target: dir, FSType: "cgroup2", Super: tc.options}}
		if got := reachable("", "/own", infos, &left); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
		left = 0
		if got := reachable("", "/own", infos, &left); !got {
			t.Errorf("%s: more than are looked at: %v", tc.name, got)
		}
		for _, name := range list {
			_ = os.Chmod(filepath.Join(dir, name), 0o755)
		}
	}
	left := mostLooked
	if !reachable("cpu", "/own", nil, &left) {
		t.Error("a hierarchy that is not mounted cannot be reached")
	}
}
