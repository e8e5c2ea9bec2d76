//go:build linux

package renames

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestClear: other processes change old and new names of a directory while it is carried over, before its old names are
// removed. No change is lost. What replaced an old name replaces the new one, unless somebody made or replaced that,
// too: then both stay.
func TestClear(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "old/same: 1", "old/replaced: 1", "old/both: 1", "old/gone: 1", "old/sub/f: 1", "fresh/", "aside/")
	t.Chdir(dir)
	old, st := opened(t, "old")
	fresh, _ := opened(t, "fresh")
	aside, _ := opened(t, "aside")
	c := tree{aside: aside, move: &move{waits: func() bool { return true }}, root: fresh, links: map[id]string{}, made: map[id]bool{}}
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

// TestRemove: an old name that somebody gives to another file between the look at it and its removal.
func TestRemove(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "old/", "fresh/", "aside/")
	t.Chdir(dir)
	for _, c := range []struct {
		name         string
		then         func() error // when it was looked at
		atOld, atNew string
	}{
		{"nothing", func() error { return nil }, "", "1"},
		{"saved by the old name", func() error { return os.Rename("other", "old/f") }, "", "2"},
		{"saved by the new name", func() error { return os.Rename("other", "fresh/f") }, "", "2"},
		{"saved by both names", func() error {
			_ = os.WriteFile("third", []byte("3"), 0o600)
			_ = os.Rename("third", "fresh/f")
			return os.Rename("other", "old/f")
		}, "2", "3"},
		{"removed", func() error { return os.Remove("old/f") }, "", "1"},
		{"a directory instead", func() error { _ = os.Remove("old/f"); return os.MkdirAll("old/f/g", 0o700) }, "", "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Tree(t, dir, "old/f: 1", "other: 2")
			old, _ := opened(t, "old")
			fresh, _ := opened(t, "fresh")
			aside, _ := opened(t, "aside")
			x := tree{aside: aside, move: &move{waits: func() bool { return true }}, root: fresh, links: map[id]string{}, made: map[id]bool{}}
			if err := x.build(old, fresh, "", 0); err != nil {
				t.Fatal(err)
			}
			p := place{old, "f"}
			st, err := p.stat()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.then(); err != nil {
				t.Fatal(err)
			}
			x.remove(p, place{fresh, "f"}, &st)
			for name, want := range map[string]string{"old/f": c.atOld, "fresh/f": c.atNew} {
				text, err := os.ReadFile(name)
				if info, e := os.Lstat(name); e == nil && info.IsDir() {
					text, err = []byte("directory"), nil
				}
				if string(text) != want || want == "" && !os.IsNotExist(err) {
					t.Errorf("%s: %q, %v, want %q", name, text, err, want)
				}
			}
			for _, d := range []string{"old", "fresh", "aside"} {
				if err := os.RemoveAll(d + "/f"); err != nil {
					t.Fatal(err)
				}
				if list, err := os.ReadDir(d); err != nil || len(list) > 0 {
					t.Errorf("in %s is left %v, %v", d, list, err)
				}
			}
		})
	}
}

// opened opens a directory of the working directory until the test has ended.
func opened(t *testing.T, name string) (sys.FD, unix.Statx_t) {
	t.Helper()
	fd, st, err := openDir(place{unix.AT_FDCWD, name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	return fd, st
}
