//go:build linux

package tx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// That a directory was opened and closed again is our doing; what somebody else did
// meanwhile is not.
func TestFollow(t *testing.T) {
	dir := testenv.Dir(t)
	h, err := tree.OpenAbs(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var list CTimes
	at := store.Place{Root: 0, Path: "d"}
	step := func(mode uint32, meanwhile func()) (before, after int64) {
		t.Helper()
		st, err := h.Stat()
		if err != nil {
			t.Fatal(err)
		}
		meanwhile()
		if err := h.Chmod(mode); err != nil {
			t.Fatal(err)
		}
		list.Follow(at, st, h)
		now, err := h.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return st.Ctime, now.Ctime
	}
	// Before Linux 6.13 the kernel sets times to that of the last tick, so a change is visible only after the next
	// tick.
	write := func() {
		before, err := h.Stat()
		for now := before; err == nil && now.Ctime == before.Ctime; now, err = h.Stat() {
			if err = errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Remove(filepath.Join(dir, "f"))); err != nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	nothing := func() {}

	first, _ := step(0o700, nothing)
	if _, now := step(0o755, nothing); list.Before(at, now) != first {
		t.Error("a directory that was only opened and closed counts as changed")
	}
	if _, now := step(0o700, write); list.Before(at, now) != now {
		t.Error("a directory with a new file does not count as changed")
	}
	if _, now := step(0o755, nothing); list.Before(at, now) == first {
		t.Error("a directory that was closed after a change does not count as changed")
	}
	if list.Before(store.Place{Root: 1, Path: "d"}, first) != first {
		t.Error("another one")
	}
}

// TestCloseDoorsInside: the modes of what is in a session and in a project are restored, also where a directory above
// has its own mode again, which keeps its owner out.
func TestCloseDoorsInside(t *testing.T) {
	testenv.NeedUser(t) // nothing keeps root out
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "session/tx/1/copies/1/in/", "session/tx/1/copies/1/in/f", "project/d/", "project/d/in/", "project/d/in/f", "state/")
	open := func(name string) *tree.Handle {
		h, err := tree.OpenAbs(filepath.Join(dir, name), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}
	session := open("session")
	s := &Log{Dir: session, Roots: []string{filepath.Join(dir, "project")}, Path: filepath.Join(dir, "session"), Book: &store.Book{State: open("state"), Dir: session, ID: "s"}}
	var all []string
	for top, note := range map[string]func(path string, ino uint64, mode uint32) error{
		"project/d": s.Book.Keeper(false, 0), "session/tx/1/copies/1": s.Book.OwnKeeper("."),
	} {
		_, below, _ := strings.Cut(top, "/")
		for _, name := range []string{"", "/in", "/in/f"} {
			var st unix.Stat_t
			path := filepath.Join(dir, top+name)
			if err := unix.Lstat(path, &st); err != nil {
				t.Fatal(err)
			}
			if err := note(below+name, st.Ino, 0); err != nil {
				t.Fatal(err)
			}
			all = append(all, path)
		}
		if err := os.Chmod(filepath.Join(dir, top), 0); err != nil {
			t.Fatal(err)
		}
	}
	s.Meta = func() *store.Meta { return new(store.Meta) }
	if err := s.CloseDoors(); err != nil {
		t.Error(err)
	}
	for _, path := range all { // those above come first
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Mode&0o777 != 0 {
			t.Errorf("%s: %v, mode %o", path, err, st.Mode)
		}
		_ = os.Chmod(path, 0o700)
	}
}
