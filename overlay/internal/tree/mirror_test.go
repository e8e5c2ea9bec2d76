//go:build linux

package tree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// changing is a project in which somebody does something each time after a name was looked at, or a file was opened.
type changing struct {
	*Real
	after func(path, name string)
}

func (t changing) At(path string) (Dir, error) {
	d, err := t.Real.At(path)
	return changingDir{d, path, t.after}, err
}

type opened interface{ Dir }

type changingDir struct {
	opened
	path  string
	after func(path, name string)
}

func (d changingDir) Lstat(name string) (Stat, bool, error) {
	st, ok, err := d.opened.Lstat(name)
	d.after(d.path, name)
	return st, ok, err
}

func (d changingDir) File(name string, want Stat) (*File, error) {
	f, err := d.opened.File(name, want)
	d.after(d.path, name+" open")
	return f, err
}

// TestMirrorOfChanging: a project can be copied while somebody changes it. The copy lacks what was removed meanwhile,
// and has what was replaced.
func TestMirrorOfChanging(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "copy/", "p/a: a", "p/dir/sub/f: f", "p/file/f: f", "p/grows: 1", "p/replaced: old", "new: new", "p/short: 12345", "p/stays/f: s", "p/z: z")
	p := filepath.Join(dir, "p")
	done := map[string]bool{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	after := func(path, name string) {
		if done[name] {
			return
		}
		done[name] = true
		switch at := filepath.Join(p, path, strings.TrimSuffix(name, " open")); name {
		case "a":
			must(os.Remove(at))
		case "dir":
			must(os.RemoveAll(at))
		case "file":
			must(os.RemoveAll(at))
			must(os.WriteFile(at, nil, 0o644))
		case "grows open":
			must(os.WriteFile(at, []byte("12"), 0o644))
		case "replaced":
			must(os.Rename(filepath.Join(dir, "new"), at))
		case "short":
			must(os.Truncate(at, 2))
		}
	}
	from, err := OpenAbs(p, unix.O_PATH|unix.O_DIRECTORY)
	must(err)
	top, err := OpenAbs(filepath.Join(dir, "copy"), unix.O_RDONLY|unix.O_DIRECTORY)
	must(err)
	defer top.Close()
	tree := changing{&Real{H: from}, after}
	defer tree.Close()
	rec, err := MakeMirror(context.Background(), tree, top)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"grows", "replaced", "short", "stays", "z"}
	for _, n := range []*Node{rec.Low, rec.Own} {
		var names []string
		for _, c := range n.Children {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("recorded: %q", names)
		}
	}
	// A commit compares this, and finds that somebody else wrote to the file.
	now, err := tree.At(".")
	must(err)
	if st, _, err := now.Lstat("grows"); err != nil || st.Same(rec.Low.Child("grows").Stat) {
		t.Errorf("a file that was written to meanwhile is recorded as it is now: %v", err)
	}
	now.Close()
	entries, err := os.ReadDir(filepath.Join(dir, "copy"))
	must(err)
	var copied []string
	for _, e := range entries {
		copied = append(copied, e.Name())
	}
	if !slices.Equal(copied, want) {
		t.Errorf("copied: %q", copied)
	}
	for name, want := range map[string]string{"grows": "1", "replaced": "new", "short": "12", "stays/f": "s"} {
		if b, err := os.ReadFile(filepath.Join(dir, "copy", name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
