//go:build linux

package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// unsyncedBy reads the mark of a session: the boot in which commands wrote to it. Empty: it is on disk.
func unsyncedBy(t *testing.T, s *Session) string {
	t.Helper()
	boot, err := os.Readlink(filepath.Join(s.Dir(), store.UnsyncedName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return boot
}

// restart makes it look as if the machine was restarted since the last command.
func restart(t *testing.T, s *Session) {
	t.Helper()
	mark := filepath.Join(s.Dir(), store.UnsyncedName)
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("00000000-0000-4000-8000-000000000000", mark); err != nil {
		t.Fatal(err)
	}
}

// volatile begins a session whose overlays do not sync.
func volatile(t *testing.T, root string) *Session {
	t.Helper()
	s := create(t, root)
	if s.Info().Engine != EngineOverlay {
		t.Skipf("the engine is %v", s.Info().Engine)
	}
	if boot := unsyncedBy(t, s); boot == "" || boot != sys.BootID() {
		t.Fatalf("before the first command, the mark is %q", boot)
	}
	return s
}

// TestUnsynced: a session is marked while commands can write to it, and until it is on disk.
func TestUnsynced(t *testing.T) {
	root := project(t, `echo 1 > f`)
	s := volatile(t, root)
	for _, m := range s.Mounts() {
		if m.Kind == mounts.KindOverlay && !m.Volatile {
			t.Errorf("%s syncs", m.Target)
		}
	}
	sandbox(t, s, `echo 2 >> f; echo new > g`)
	sandbox(t, s, `echo 3 >> f`) // once more
	if unsyncedBy(t, s) == "" {
		t.Error("there is no mark after a command")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if boot := unsyncedBy(t, s); boot != "" {
		t.Errorf("after Close, the mark is %q", boot)
	}
	s = reopen(t, s)
	if err := s.Resume(nil); err != nil {
		t.Fatal(err)
	}
	if unsyncedBy(t, s) == "" {
		t.Error("there is no mark after Resume")
	}
	sandbox(t, s, `echo 4 >> f`)
	commitAll(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if unsyncedBy(t, s) != "" {
		t.Error("a committed session is marked")
	}
	if got := head(filepath.Join(root, "f")); got != "1\n2\n3\n4\n" {
		t.Errorf("f is %q", got)
	}
}

// TestUnsyncedDiscard: a discarded session stays marked, since nobody waits for the disk then.
func TestUnsyncedDiscard(t *testing.T) {
	s := volatile(t, project(t, `echo 1 > f`))
	sandbox(t, s, `echo 2 >> f`)
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if unsyncedBy(t, s) == "" {
		t.Error("a discarded session is not marked")
	}
	s = reopen(t, s)
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if unsyncedBy(t, s) != "" {
		t.Error("after it was made Kept again and closed, it is marked")
	}
}

// TestUnsyncedRestart: what may be cut off after a power failure is not committed unless that is asked for.
func TestUnsyncedRestart(t *testing.T) {
	root := project(t, `echo 1 > f`)
	s := volatile(t, root)
	sandbox(t, s, `echo 2 >> f`)
	restart(t, s)
	if !s.Info().Unsynced {
		t.Error("Info does not say it")
	}
	refused := func() {
		t.Helper()
		if err := s.Commit(t.Context()); !errors.Is(err, ErrUnsynced) {
			t.Errorf("Commit: %v", err)
		}
		if got := head(filepath.Join(root, "f")); got != "1\n" {
			t.Errorf("the project has %q", got)
		}
	}
	refused()
	for range 2 { // neither closing it nor another command changes that
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s)
		refused()
		if err := s.Resume(nil); err != nil {
			t.Fatal(err)
		}
		sandbox(t, s, `echo 3 >> f`)
		refused()
	}
	if err := s.CommitWith(t.Context(), CommitOptions{AllowUnsynced: true}); err != nil {
		t.Fatal(err)
	}
	if got := head(filepath.Join(root, "f")); got != "1\n2\n3\n3\n" {
		t.Errorf("the project has %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Errorf("after it was committed once: %v", err)
	}
}

// TestUnsyncedKilled: as long as the machine runs, a process that was killed loses nothing.
func TestUnsyncedKilled(t *testing.T) {
	root := project(t, `echo 1 > f`)
	s := volatile(t, root)
	sandbox(t, s, `echo 2 >> f`)
	work := filepath.Join(s.Dir(), store.WorkName(0), "work", "incompat", "volatile")
	if _, err := os.Lstat(work); errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the kernel left no mark, so nothing is tested: %v", err)
	}
	s.lock.Close() // as for a process that died
	s.lock = nil
	o := reopen(t, s)
	if err := o.Resume(nil); err != nil {
		t.Fatal(err)
	}
	sandbox(t, o, `echo 3 >> f`)
	commitAll(t, o)
	if got := head(filepath.Join(root, "f")); got != "1\n2\n3\n" {
		t.Errorf("the project has %q", got)
	}
}

// TestUnsyncedStrange: a mark that cannot be read, or is none of ours, counts as one of another boot.
func TestUnsyncedStrange(t *testing.T) {
	for name, make := range map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"long":      func(p string) error { return os.Symlink(strings.Repeat("x", 200), p) },
		"prefix":    func(p string) error { return os.Symlink(sys.BootID()+"x", p) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			s := volatile(t, project(t, `echo 1 > f`))
			sandbox(t, s, `echo 2 >> f`)
			mark := filepath.Join(s.Dir(), store.UnsyncedName)
			if err := errors.Join(os.Remove(mark), make(mark)); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context()); !errors.Is(err, ErrUnsynced) {
				t.Errorf("Commit: %v", err)
			}
		})
	}
}
