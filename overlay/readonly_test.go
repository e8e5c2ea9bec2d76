//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// frozen mounts a directory over itself, read-only, while fn runs.
func frozen(t *testing.T, dir string, fn func()) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	fn()
}

// TestReadOnlyProject: nothing is begun in a project that nobody can write to, and the session is as it was.
func TestReadOnlyProject(t *testing.T) {
	if !tree.IsRoot() {
		return // only root mounts here
	}
	testenv.Leaks(t)
	root := project(t, `echo a > f; echo g > g`)
	s := create(t, root)
	before, saw := look(t, root), sandbox(t, s, `echo b > f; rm g; mkdir d`)
	id, state := s.ID(), filepath.Dir(s.Dir())
	refused := func(do func(*Session) error) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		frozen(t, root, func() {
			again, err := Open(state, id)
			if err != nil {
				t.Fatal(err)
			}
			err = do(again)
			if e, ok := errors.AsType[*Error](err); !ok || e.Path != root || e.Err != unix.EROFS {
				t.Error(err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			for r, err := range Recover(state) {
				t.Errorf("%+v, %v", r, err)
			}
		})
		var err error
		if s, err = Open(state, id); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = s.Close() }()
	refused(func(s *Session) error { return s.Commit(t.Context()) })
	wantSame(t, look(t, root), before)
	commitAll(t, s)
	wantSame(t, look(t, root), saw)
	refused(func(s *Session) error { return s.Undo(t.Context(), UndoOptions{}) })
	wantSame(t, look(t, root), saw)
	if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, look(t, root), before)
}

// TestStageNeverMade: a session whose commit ended where its first directory was to be made, in a project that nobody
// can write to, is not interrupted for ever.
func TestStageNeverMade(t *testing.T) {
	if !tree.IsRoot() {
		return // only root mounts here
	}
	testenv.Leaks(t)
	root := project(t, `echo a > f`)
	s := create(t, root)
	sandbox(t, s, `echo b > f`)
	begun, err := s.log.Begin()
	if err != nil {
		t.Fatal(err)
	}
	n := begun.N
	begun.Close()
	staged := fmt.Sprintf(`{"version":1,"stages":[{"root":0,"dir":".","name":"%sabcdefghijkl","before":1}]}`, tx.StageMark)
	if err := os.WriteFile(filepath.Join(s.Dir(), tx.Name, strconv.Itoa(n), "stages"), []byte(staged), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Dir(s.Dir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	frozen(t, root, func() {
		recovered := 0
		for r, err := range Recover(state) {
			if recovered++; err != nil {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if recovered != 1 {
			t.Error(recovered)
		}
	})
}
