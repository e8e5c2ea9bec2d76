//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// stack begins a session on another one, which is closed for it.
func stack(t testing.TB, below *Session, roots ...string) *Session {
	t.Helper()
	if err := below.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Create(Options{Roots: roots, Dir: filepath.Dir(below.Dir()), On: below.ID()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reopen opens a session again that was closed.
func reopen(t testing.TB, s *Session) *Session {
	t.Helper()
	again, err := Open(filepath.Dir(s.Dir()), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func TestStack(t *testing.T) {
	root := project(t, `mkdir -p d/e gone o; echo a > d/f; echo a > d/e/x; echo a > gone/x; echo a > o/old; echo a > same; ln -s a l`)
	one := create(t, root)
	saw := sandbox(t, one, `echo one > d/f; rm -r gone; rm -r o; mkdir o; echo one > o/new; echo n > added; rm l`)
	two := stack(t, one, root)
	if got := sandbox(t, two, ``); got != saw {
		t.Error("the second session does not begin as the first one ended")
		wantSame(t, got, saw)
	}
	wantChanges(t, two)
	saw = sandbox(t, two, `echo two > d/f; rm added o/new; echo t > o/t; echo two > gone; rm d/e/x; ln -s b l`)
	wantChanges(t, two, "D added", "D d/e/x", "M d/f", "A gone", "A l", "D o/new", "A o/t")
	three := stack(t, two, root)
	saw3 := sandbox(t, three, `echo three > d/f; rm -r o`)
	wantChanges(t, three, "M d/f", "D o/")

	// A session does not change as long as another one is based on it.
	if err := three.Commit(t.Context()); err == nil || !strings.Contains(err.Error(), "commit that first") {
		t.Errorf("commit of the topmost: %v", err)
	}
	one = reopen(t, one)
	if list, err := one.Dependents(); err != nil || len(list) != 1 || list[0] != two.ID() {
		t.Errorf("dependents %q, %v", list, err)
	}
	if err := one.Discard(); err == nil || !strings.Contains(err.Error(), two.ID()) {
		t.Errorf("discard: %v", err)
	}
	if err := one.Remove(); err == nil || !strings.Contains(err.Error(), two.ID()) {
		t.Errorf("remove: %v", err)
	}
	if err := three.Discard(); err != nil {
		t.Fatal(err)
	}
	_ = saw3

	// Committed one after the other, they make the project what was seen in the last.
	before := look(t, root)
	commitAll(t, one)
	first := look(t, root)
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	two = reopen(t, two)
	wantChanges(t, two, "D added", "D d/e/x", "M d/f", "A gone", "A l", "D o/new", "A o/t")
	commitAll(t, two)
	wantSame(t, look(t, root), saw)
	for _, u := range []struct {
		s    *Session
		want string
	}{{two, first}, {one, before}} {
		if err := u.s.Undo(t.Context(), UndoOptions{}); err != nil {
			t.Fatal(err)
		}
		wantSame(t, look(t, root), u.want)
	}
}

// For a session on top of another one, a change by somebody else in the project is a conflict. What the other session
// committed is none.
func TestStackConflict(t *testing.T) {
	root := project(t, `mkdir d; echo a > d/f; echo a > d/g; echo a > h`)
	one := create(t, root)
	sandbox(t, one, `echo one > d/f; echo one > h; chmod 700 d`)
	two := stack(t, one, root)
	sandbox(t, two, `echo two > d/f; echo two > d/g; echo two > h; chmod 750 d`)
	one = reopen(t, one)
	commitAll(t, one)
	untilNewer(t, two, root)
	outside(t, root, `echo mine > d/g; echo mine >> h`)
	var ce *ConflictError
	if err := two.Commit(t.Context()); !errors.As(err, &ce) || len(ce.Conflicts) != 2 || ce.Conflicts[0].Path != "d/g" || ce.Conflicts[1].Path != "h" {
		t.Fatalf("got %v", err)
	}
	commitAll(t, two, "d/f")
}

func TestStackRefused(t *testing.T) {
	root, other := project(t, `mkdir d; echo a > d/f`), project(t, `true`)
	one := create(t, root)
	dir := filepath.Dir(one.Dir())
	begin := func(on string, roots ...string) error {
		s, err := Create(Options{Roots: roots, Dir: dir, On: on})
		if err == nil {
			err = s.Remove()
		}
		return err
	}
	if err := begin(one.ID(), root); !errors.Is(err, ErrBusy) {
		t.Errorf("on a session that is in use: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := begin(one.ID(), root); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := begin(one.ID(), other); err == nil || !strings.Contains(err.Error(), "not a root of it") {
		t.Errorf("another root: %v", err)
	}
	if err := begin("zzzzzz", root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on none: %v", err)
	}
	one = reopen(t, one)
	if err := one.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := begin(one.ID(), root); err == nil || !strings.Contains(err.Error(), "was discarded") {
		t.Errorf("on a discarded session: %v", err)
	}
}
