//go:build linux

package overlay

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestUndoDeeds: commits, drops and discards are taken back in the order in which they were done, whichever engine
// stores the changes, also by another program.
func TestUndoDeeds(t *testing.T) {
	testenv.Leaks(t)
	for _, e := range engines {
		t.Run(e.String(), func(t *testing.T) {
			root := project(t, `printf 1 > a; printf 1 > b; printf 1 > c; printf 1 > gone`)
			before := look(t, root)
			s := createWith(t, e, root)
			sandbox(t, s, `printf 2 > a; printf 2 > b; printf 2 > c; mkdir -p d/e; printf n > d/e/f; rm gone`)
			all := []string{"M a", "M b", "M c", "A d/", "A d/e/", "A d/e/f", "D gone"}
			wantChanges(t, s, all...)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			next := func(d Deed) {
				t.Helper()
				must(s.Close())
				s = reopen(t, s)
				if in := s.Info(); in.Undo != d || in.Decided.IsZero() != (d == NoDeed) {
					t.Fatalf("the last deed is a %s of %v, not a %s", in.Undo, in.Decided, d)
				}
			}
			undo := func() { t.Helper(); must(s.Undo(t.Context(), UndoOptions{})) }
			next(NoDeed)
			if err := s.Undo(t.Context(), UndoOptions{}); !errors.Is(err, ErrNoCommit) {
				t.Fatal(err)
			}
			must(s.Drop(t.Context(), "d", "gone"))
			next(DropDeed)
			commitAll(t, s, "a")
			next(CommitDeed)
			must(s.Drop(t.Context(), "b"))
			next(DropDeed)
			wantChanges(t, s, "M c")
			must(s.Discard())
			next(DiscardDeed)
			if err := s.Commit(t.Context()); !errors.Is(err, ErrEnded) {
				t.Errorf("commit of what was discarded: %v", err)
			}
			undo()
			next(DropDeed)
			wantChanges(t, s, "M c")
			must(s.Drop(t.Context(), "c")) // nothing is left: the rest was committed
			next(DropDeed)
			if s.State() != Committed {
				t.Errorf("state %s", s.State())
			}
			undo()
			undo()
			wantChanges(t, s, "M b", "M c")
			next(CommitDeed)
			undo()
			next(DropDeed)
			wantChanges(t, s, "M a", "M b", "M c")
			wantSame(t, look(t, root), before)
			must(s.Drop(t.Context(), "."))
			next(DropDeed)
			if s.State() != Discarded {
				t.Errorf("state %s", s.State())
			}
			undo()
			undo()
			next(NoDeed)
			wantChanges(t, s, all...)
			// What is left of it has all that there was.
			commitAll(t, s)
			next(CommitDeed)
		})
	}
}

// TestDiscardUnflushed: a discard that cannot be flushed is one that undo takes back, and its error says that it was
// done.
func TestDiscardUnflushed(t *testing.T) {
	if tree.IsRoot() {
		return // nothing is closed to root
	}
	testenv.Leaks(t)
	root := project(t, `printf 1 > a`)
	s := create(t, root)
	sandbox(t, s, `printf 2 > a`)
	if err := unix.Chmod(s.Dir(), 0o300); err != nil { // files can be replaced, and the directory cannot be opened
		t.Fatal(err)
	}
	err := s.Discard()
	if !errors.Is(err, unix.EACCES) || !strings.HasSuffix(err.Error(), "; it was discarded") || s.Info().State != Discarded {
		t.Fatalf("%v: %v", s.Info().State, err)
	}
	if err := unix.Chmod(s.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Discard(), s.Undo(t.Context(), UndoOptions{})); err != nil || s.Info().State != Kept {
		t.Errorf("undo: %v: %v", s.Info().State, err)
	}
}

// TestDiscardKept: Clean leaves a discarded session alone for as long as a committed one, and then removes all of it.
func TestDiscardKept(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > a`)
	s := create(t, root)
	sandbox(t, s, `printf 2 > a`)
	state, id := s.Dir()[:len(s.Dir())-len(s.ID())-1], s.ID()
	if err := errors.Join(s.Discard(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for c, err := range Clean(state, CleanOptions{}) {
		t.Errorf("removed: %v, %v", c, err)
	}
	n := 0
	for c, err := range Clean(state, CleanOptions{Ended: -1}) {
		if err != nil || c.ID != id || c.State != Discarded || c.Size < 4096 {
			t.Errorf("removed: %+v, %v", c, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d removed", n)
	}
}
