//go:build linux

package renames

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestClear: what others do to the old and the new names of a directory that is carried over, before the old ones are removed, is
// not lost. What replaced an old name replaces the new one, unless somebody made or replaced that too: then both stay.
func TestClear(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "old/same: 1", "old/replaced: 1", "old/both: 1", "old/gone: 1", "old/sub/f: 1", "fresh/")
	t.Chdir(dir)
	open := func(name string) (sys.FD, unix.Statx_t) {
		fd, st, err := openDir(place{unix.AT_FDCWD, name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fd.Close() })
		return fd, st
	}
	old, st := open("old")
	fresh, _ := open("fresh")
	c := tree{move: &move{waits: func() bool { return true }}, root: fresh, links: map[id]string{}, made: map[id]bool{}}
	if err := c.build(old, fresh, "", 0); err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "a: new", "b: by the old name", "c: by the new name", "old/made: by the old name", "fresh/made: by the new name", "old/alone: new", "old/sub/g: new")
	for from, to := range map[string]string{"a": "old/replaced", "b": "old/both", "c": "fresh/both"} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove("old/gone"); err != nil {
		t.Fatal(err)
	}
	c.clear(old, fresh, &st, 0)
	for name, want := range map[string]string{
		"fresh/same": "1", "old/same": "", "fresh/replaced": "new", "old/replaced": "", "fresh/alone": "new", "old/alone": "",
		"fresh/both": "by the new name", "old/both": "by the old name", "fresh/made": "by the new name", "old/made": "by the old name",
		"fresh/sub/f": "1", "fresh/sub/g": "new", "old/sub": "", "fresh/gone": "1",
	} {
		text, err := os.ReadFile(name)
		if string(text) != want || want == "" && !os.IsNotExist(err) {
			t.Errorf("%s: %q, %v, want %q", name, text, err, want)
		}
	}
}
