//go:build linux

package owndir

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestWithin: a directory is recognized by whatever name leads to it.
func TestWithin(t *testing.T) {
	dir, err := filepath.EvalSymlinks(testenv.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "own/x/", "other/", "l => own/x", "up => .", "loop => loop", "none => missing")
	for name, want := range map[string]struct {
		real string
		in   bool
	}{
		"own":              {"own", true},
		"own/x":            {"own/x", true},
		"own/y/z":          {"own/y/z", true},
		"l/y":              {"own/x/y", true},
		"up/up/l":          {"own/x", true},
		"other":            {"other", false},
		"other/y/z":        {"other/y/z", false},
		"up/other":         {"other", false},
		"owner":            {"owner", false},
		"none/x":           {"none/x", false},
		"loop/x":           {"loop/x", true}, // nobody knows
		"../../proc/1/cwd": {"", true},
	} {
		path := filepath.Join(dir, name)
		if want.real == "" {
			path = "/proc/self/cwd"
		}
		real, in := Within(path, []string{"", filepath.Join(dir, "missing"), filepath.Join(dir, "own")})
		if in != want.in || want.real != "" && real != filepath.Join(dir, want.real) {
			t.Errorf("%s: %s, %v", name, real, in)
		}
	}
	// A link in the list, too.
	if _, in := Within(filepath.Join(dir, "own"), []string{filepath.Join(dir, "l", "..")}); !in {
		t.Error("another name of the directory is not recognized")
	}
}
