//go:build linux

package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestSpare: a session that reuses the directories of another one is like a new one.
func TestSpare(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/file: x", "cache/", "state/")
	project, state := filepath.Join(dir, "p"), filepath.Join(dir, "state")
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := Create(Options{Roots: []string{project}, Dir: state, Command: []string{"first, with many words, so that there is more to write over"}, Engine: EngineOverlay})
	if err != nil {
		t.Fatal(err)
	}
	before, upper := first.Info(), first.Roots()[0].Upper
	if _, err := first.Scratch(filepath.Join(dir, "cache")); err != nil {
		t.Fatal(err)
	}
	var was, is unix.Stat_t
	if err := unix.Stat(upper, &was); err != nil {
		t.Fatal(err)
	}
	// Of this nothing must be left.
	if err := os.Chmod(upper, 0o711); err != nil {
		t.Fatal(err)
	}
	attr := unix.Setxattr(upper, "user.left", []byte("x"), 0) == nil
	sp, err := first.Retire()
	if err != nil || !sp.Ready() {
		t.Fatalf("nothing was written, and yet there is no spare (%v)", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	for info, err := range List(state) {
		t.Errorf("a spare is listed: %v, %v", info.ID, err)
	}
	if err := os.Chmod(project, 0o750); err != nil {
		t.Fatal(err)
	}
	s, err := Create(Options{Roots: []string{project}, Dir: state, Command: []string{"second"}, Spare: sp})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info := s.Info()
	if !info.Created.After(before.Created) || info.ID == before.ID || !slices.Equal(info.Command, []string{"second"}) {
		t.Errorf("it is %+v", info)
	}
	upper = s.Roots()[0].Upper
	if err := unix.Stat(upper, &is); err != nil {
		t.Fatal(err)
	}
	if is.Ino != was.Ino || is.Mode&0o7777 != 0o750 {
		t.Errorf("the upper directory is number %d with mode %o", is.Ino, is.Mode)
	}
	if attr {
		if _, err := unix.Getxattr(upper, "user.left", nil); err != unix.ENODATA {
			t.Errorf("an attribute is left: %v", err)
		}
	}
	if m, err := s.Scratch(filepath.Join(dir, "cache")); err != nil || filepath.Base(m.Upper) != "upper1" {
		t.Errorf("scratch is %+v, %v", m, err)
	}
	if m, err := s.Scratch(filepath.Join(dir, "cache")); err != nil || filepath.Base(m.Upper) != "upper2" {
		t.Errorf("more scratch is %+v, %v", m, err)
	}
	testenv.Tree(t, upper, "new: x")
	var got []string
	for c, err := range s.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.String())
	}
	if !slices.Equal(got, []string{"A new"}) {
		t.Errorf("changes: %q", got)
	}
	if again, err := Open(state, info.ID[:20]); err == nil {
		again.Close()
		t.Error("the session is not locked")
	}
	if names := entries(t, state); len(names) != 1 {
		t.Errorf("the state directory holds %q", names)
	}
	if sp, err = s.Retire(); err != nil || sp.Ready() {
		t.Errorf("a session that was written to is a spare (%v)", err)
	}
	if err := sp.Remove(); err != nil {
		t.Error(err)
	}
	if names := entries(t, state); len(names) != 0 {
		t.Errorf("the state directory holds %q", names)
	}
}

// TestNoSpare: a spare is not used if it was written to, or if another directory is now in the project's place.
func TestNoSpare(t *testing.T) {
	for _, test := range []struct {
		name    string
		written func(t *testing.T, project, upper string)
		fits    bool // it becomes a spare, but is not used
	}{
		{"file", func(t *testing.T, _, upper string) { testenv.Tree(t, upper, "file: x") }, false},
		{"directory", func(t *testing.T, _, upper string) { testenv.Tree(t, upper, "d/") }, false},
		{"opaque", func(t *testing.T, _, upper string) {
			if err := unix.Setxattr(upper, "user.overlay.opaque", []byte("y"), 0); err != nil {
				testenv.Skip(t, "user-xattrs", "no user attributes here: "+err.Error())
			}
		}, false},
		{"other project", func(t *testing.T, project, _ string) {
			if err := os.Rename(project, project+".old"); err != nil {
				t.Fatal(err)
			}
			testenv.Tree(t, project, "other: x")
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "p/file: x", "state/")
			project, state := filepath.Join(dir, "p"), filepath.Join(dir, "state")
			if err := os.Chmod(state, 0o700); err != nil {
				t.Fatal(err)
			}
			s, err := Create(Options{Roots: []string{project}, Dir: state, Engine: EngineOverlay})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var was, is unix.Stat_t
			if err := unix.Stat(s.Roots()[0].Upper, &was); err != nil {
				t.Fatal(err)
			}
			test.written(t, project, s.Roots()[0].Upper)
			sp, err := s.Retire()
			if err != nil {
				t.Fatal(err)
			}
			if sp.Ready() != test.fits {
				t.Errorf("spare: %v", sp.Ready())
			}
			next, err := Create(Options{Roots: []string{project}, Dir: state, Spare: sp})
			if err != nil {
				t.Fatal(err)
			}
			defer next.Close()
			if err := unix.Stat(next.Roots()[0].Upper, &is); err != nil || is.Ino == was.Ino {
				t.Errorf("the upper directory is that of the other project (%v)", err)
			}
			if names := entries(t, state); len(names) != 1 {
				t.Errorf("the state directory holds %q", names)
			}
		})
	}
}

// TestSpareLeft: Clean removes a spare if its holder has died, and keeps it if the holder lives.
func TestSpareLeft(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "state/")
	state := filepath.Join(dir, "state")
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Create(Options{Roots: []string{filepath.Join(dir, "p")}, Dir: state, Engine: EngineOverlay})
	if err != nil {
		t.Fatal(err)
	}
	sp, err := s.Retire()
	if err != nil {
		t.Fatal(err)
	}
	ago := time.Now().Add(-2 * time.Minute) // what is younger may be about to be a session
	if err := os.Chtimes(filepath.Join(state, sp.name), ago, ago); err != nil {
		t.Fatal(err)
	}
	clean := func() {
		for _, err := range Clean(state, CleanOptions{Kept: -1, Ended: -1}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	clean()
	if names := entries(t, state); len(names) != 1 {
		t.Fatalf("the state directory holds %q", names)
	}
	sp.lock.Close() // as the kernel does
	clean()
	if names := entries(t, state); len(names) != 0 {
		t.Errorf("the state directory holds %q", names)
	}
	sp.lock = nil
	if err := sp.Remove(); err != nil {
		t.Error(err)
	}
}
