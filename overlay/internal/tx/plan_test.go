//go:build linux

package tx

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestRetimed: a new name of a file with another time gets that time. A directory, or a file of another root, that has
// only the same number does not: it can be on another file system.
func TestRetimed(t *testing.T) {
	const file, dir = 7, 8
	was, after := moment(100), moment(200)
	new := func(root int, ino uint64) Node {
		return Node{Root: root, New: Ident{Ino: ino, Mode: unix.S_IFREG | 0o644, Mtime: was}}
	}
	c := &Writer{
		Tx:      &Tx{Journal: &Journal{Nodes: []Node{new(0, file), new(1, file), new(0, dir), new(1, dir)}}},
		Changed: func(store.Place, tree.Stat) bool { return false },
	}
	for path, st := range map[string]tree.Stat{
		"f": {Ino: file, Mode: unix.S_IFREG | 0o644}, "d": {Ino: dir, Mode: unix.S_IFDIR | 0o755},
	} {
		for range 2 {
			if err := c.touch(store.Place{Path: path}, st, after); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(c.Tx.Journal.Times); n != 2 {
		t.Errorf("%d times of two objects", n)
	}
	c.retimed()
	for i, want := range []Moment{after, was, was, was} {
		if n := c.Tx.Journal.Nodes[i]; n.New.Mtime != want {
			t.Errorf("number %d of root %d: time %v, want %v", n.New.Ino, n.Root, n.New.Mtime, want)
		}
	}
}

// TestApart: a directory on another device than its root, such as a btrfs subvolume, needs a stage of its own. That
// also holds if its time changes before anything in it does.
func TestApart(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "low/d/", "up/d/")
	open := func(name string) *tree.Handle {
		h, err := tree.OpenAbs(filepath.Join(dir, name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		return h
	}
	low := open("low")
	st, err := low.Stat()
	if err != nil {
		t.Fatal(err)
	}
	at := store.Place{Path: "d"}
	for _, dev := range []uint64{st.Dev, st.Dev + 1} {
		x := &Tx{s: &Log{Roots: []string{filepath.Join(dir, "low")}}, Journal: &Journal{}, low: []*tree.Handle{low}}
		x.Doors = Doors{s: x.s, low: x.low}
		c := &Writer{
			Tx: x, Sides: []Side{{Up: &tree.Real{H: open("up")}, Dev: dev}}, Apart: map[store.Place]bool{},
			Changed: func(store.Place, tree.Stat) bool { return false },
		}
		if err := errors.Join(c.touch(at, st, moment(1)), c.touchDir(at), c.touchDir(at)); err != nil {
			t.Fatal(err)
		}
		if c.Apart[at] != (dev != st.Dev) || len(x.Journal.Times) != 1 {
			t.Errorf("another device %v: %v, %d times", dev != st.Dev, c.Apart, len(x.Journal.Times))
		}
		c.Sides[0].release()
		_ = x.Doors.Relock() // nothing was opened
	}
}
