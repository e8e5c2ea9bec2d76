//go:build linux

package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
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
	boot, _, _ = strings.Cut(boot, "\n") // the session's data may follow
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
		testenv.Skip(t, "overlay", "the engine is "+s.Info().Engine.String())
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
	if unsyncedBy(t, s) == "" {
		t.Error("a committed session is not marked")
	}
	if got := head(filepath.Join(root, "f")); got != "1\n2\n3\n4\n" {
		t.Errorf("f is %q", got)
	}
	s = reopen(t, s)
	if err := errors.Join(s.Undo(t.Context(), UndoOptions{}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if unsyncedBy(t, s) != "" {
		t.Error("after it was taken back and closed, it is marked")
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

// restartKeeping is like restart, but keeps the data in the mark.
func restartKeeping(t *testing.T, s *Session) {
	t.Helper()
	mark := filepath.Join(s.Dir(), store.UnsyncedName)
	target, err := os.Readlink(mark)
	if err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(target, "\n")
	restart(t, s)
	if err := errors.Join(os.Remove(mark), os.Symlink("00000000-0000-4000-8000-000000000000\n"+data, mark)); err != nil {
		t.Fatal(err)
	}
}

// TestUnsyncedData: a session whose data did not get to disk before a power failure is listed, is committed only if
// that is asked for, and can be discarded.
func TestUnsyncedData(t *testing.T) {
	stale := `{"version":1,"created":"2020-01-01T00:00:00Z","state":"kept","roots":[{"path":"/nowhere","ino":1,"mode":493,"uid":0,"gid":0}]}`
	for name, data := range map[string]string{"empty": "", "empty, long command": "", "zeros": "\x00\x00\x00", "cut": `{"version":1,"cre`, "longer": stale + "\n}}", "stale": stale} {
		t.Run(name, func(t *testing.T) {
			root := project(t, `echo 1 > f`)
			long := 10
			if strings.Contains(name, "long") {
				long = 5000
			}
			s, err := Create(Options{Roots: []string{root}, Dir: filepath.Join(tempDir(t), "state"), Command: []string{strings.Repeat("x", long)}})
			if err != nil {
				t.Fatal(err)
			}
			if s.Info().Engine != EngineOverlay {
				testenv.Skip(t, "overlay", "the engine is "+s.Info().Engine.String())
			}
			t.Cleanup(func() { _ = s.Close() })
			sandbox(t, s, `echo 2 >> f`)
			created := s.Info().Created
			if unsyncedBy(t, s) == "" {
				t.Fatal("it is not marked")
			}
			restartKeeping(t, s)
			if err := os.WriteFile(filepath.Join(s.Dir(), store.MetaName), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = reopen(t, s)
			if in := s.Info(); !in.Unsynced || !in.Created.Equal(created) || in.Roots[0].Path != root {
				t.Errorf("%+v", in)
			}
			if err := s.Commit(t.Context()); !errors.Is(err, ErrUnsynced) {
				t.Errorf("Commit: %v", err)
			}
			if err := s.CommitWith(t.Context(), CommitOptions{AllowUnsynced: true}); err != nil {
				t.Fatal(err)
			}
			if got := head(filepath.Join(root, "f")); got != "1\n2\n" {
				t.Errorf("the project has %q", got)
			}
		})
	}
}

// TestUnsyncedRest: what stays in a session after its commit is not on disk, so the mark stays, too: after a power
// failure, a file in the session can be empty, even one that was no change.
func TestUnsyncedRest(t *testing.T) {
	root := project(t, `echo 1 > f`)
	s := volatile(t, root)
	sandbox(t, s, `: >> f; echo new > g`)
	upper := filepath.Join(s.Roots()[0].Upper, "f")
	if got := head(upper); got != "1\n" {
		t.Fatalf("the session has %q: nothing is tested", got)
	}
	commitAll(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.State() != Committed {
		t.Fatalf("it is %v", s.State())
	}
	restart(t, s)
	if err := os.Truncate(upper, 0); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context()); !errors.Is(err, ErrUnsynced) {
		t.Errorf("Commit: %v", err)
	}
	if got := head(filepath.Join(root, "f")); got != "1\n" {
		t.Errorf("the project has %q", got)
	}
}

// TestUnsyncedFlush: Close removes the mark when the session is on disk, and returns when the removal is. A commit in
// the process that created the session has the session's data on disk before it changes the project.
func TestUnsyncedFlush(t *testing.T) {
	root := project(t, `echo 1 > f`)
	dir, _ := filepath.Split(volatile(t, root).Dir())
	for _, do := range []string{"fresh", "fresh, kept"} {
		m, touched, unmarked := memo{}, false, false
		session := ""
		r, out := deed{Do: do, State: filepath.Clean(dir), Each: true, Paths: []string{root}}.strikeIt(t, strike.Plan{Trace: func(_ int, c strike.Call) {
			if c.Name == "unlinkat" {
				if _, err := os.Lstat(c.Files[0]); err != nil {
					return // it fails
				}
			}
			if c.Name == "unlinkat" && filepath.Base(c.Files[0]) == store.UnsyncedName {
				unmarked = true
				session = filepath.Dir(c.Files[0])
				if list := m.below(session); len(list) > 0 {
					t.Errorf("%v: not on disk yet:\n\t%s", c, strings.Join(list, "\n\t"))
				}
			}
			if strings.HasPrefix(c.Name, "rename") && filepath.Dir(c.Files[1]) == root && !touched {
				touched = true
				for p, since := range m {
					if filepath.Base(p) == store.MetaName {
						t.Errorf("%v: %s is not on disk, since %v", c, p, since)
					}
				}
			}
			m.see(c)
		}})
		if r.ExitCode != exitDone {
			t.Fatalf("%s: %+v %s", do, r, out)
		}
		if do == "fresh" && !touched || do != "fresh" && !unmarked {
			t.Fatalf("%s: nothing was tested", do)
		}
		if unmarked {
			if list := m.below(session); len(list) > 0 {
				t.Errorf("%s: at the end: not on disk:\n\t%s", do, strings.Join(list, "\n\t"))
			}
		}
	}
}
