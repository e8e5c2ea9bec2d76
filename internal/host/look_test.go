//go:build linux

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLook: where paths lead that a command chose, with links that it made.
func TestLook(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "d/", "d/f: x", "l => d", "m => l/../l/f", "away => missing/x", "loop => loop", "hidden => d/f", "far/", "far/l60: x")
	long := ""
	for i := range 60 {
		if err := os.Symlink(fmt.Sprintf("l%d", i+1), filepath.Join(dir, fmt.Sprintf("far/l%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	long = "d/" + strings.Repeat("../d/", lookMost) + "f"
	if err := os.Symlink(long, filepath.Join(dir, "long")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, real, near, unseen string
		exists                   bool
	}{
		{"d/f", "d/f", "d/f", "", true},
		{"m", "d/f", "d/f", "", true},
		{"l/new/x", "d/new/x", "d", "", false},
		{"m/x", "d/f/x", "d/f", "", false},
		{"away", "missing/x", "", "", false},
		{"loop", "loop", "", "", false},
		{"hidden", "hidden", "", "hidden", true},
		{"l/../hidden/x", "hidden", "", "hidden", true},
		{"far/l30", "far/l60", "far/l60", "", true},
		{"far/l0", "far/l40", "far", "", false},
	} {
		at := func(name string) string { return filepath.Join(dir, name) }
		sees := func(link string) bool { return link != at("hidden") }
		// Not joined, because that removes what is before "..".
		real, on, unseen := Look(dir+"/"+c.name, sees)
		if c.unseen != "" {
			c.unseen = at(c.unseen)
		}
		if real != at(c.real) || on.Nearest != at(c.near) || unseen != c.unseen || on.Exists != c.exists {
			t.Errorf("%s: %s, %+v, unseen %q", c.name, real, on, unseen)
		}
	}
	if _, on, _ := Look(filepath.Join(dir, "long"), nil); on.Exists {
		t.Error("a path that is too long was followed")
	}
	if _, err := os.Stat(filepath.Join(dir, "long")); err != nil {
		t.Errorf("the control: %v", err)
	}
}
