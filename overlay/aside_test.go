//go:build linux

package overlay

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// What somebody wrote into the way of an undo is not lost by force, however often.
func TestUndoByForce(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `echo old > f; mkdir d; echo 1 > d/a`)
	s := create(t, root)
	sandbox(t, s, `echo new > f; mkdir n; echo n > n/x; rm -r d`)
	before := look(t, root)
	for round := range 3 {
		commitAll(t, s)
		outside(t, root, `echo mine > f; echo mine > n/y; mkdir d; echo mine > d/z`)
		if err := s.Undo(context.Background(), UndoOptions{}); !errors.As(err, new(*ConflictError)) {
			t.Fatalf("without force: %v", err)
		}
		if err := s.Undo(context.Background(), UndoOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		wantSame(t, noDirTimes(look(t, root)), noDirTimes(before))
		dirs, err := s.Aside()
		if err != nil || len(dirs) != round+1 {
			t.Fatalf("kept: %q, %v", dirs, err)
		}
		found := 0
		err = filepath.WalkDir(dirs[round], func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if data, err := os.ReadFile(p); err == nil && string(data) == "mine\n" {
					found++
				}
			}
			return err
		})
		if err != nil || found != 3 {
			t.Errorf("%d of three files are kept, %v", found, err)
		}
	}
	for _, err := range Clean(filepath.Dir(s.Dir()), CleanOptions{}) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(s.Dir()); err != nil {
		t.Error(err)
	}
}

// An undo keeps what somebody changed since the commit, even if size and time are as before. With force, the changed
// file is kept aside.
func TestUndoOfUnseen(t *testing.T) {
	testenv.Leaks(t)
	for name, c := range map[string]struct{ change, attribute, left string }{
		"content":                      {`printf mine >f; touch -r ../stamp f`, "", "mine"},
		"content of a new file":        {`printf mine >n/x; touch -r ../stamp n/x`, "", "mine"},
		"attribute":                    {``, "f", "user.x"},
		"attribute of a new directory": {``, "n", "user.x"},
		"nothing":                      {`ln f g; rm g; chmod 600 f; chmod 644 f; mkdir n/y; rmdir n/y`, "", ""},
	} {
		root := project(t, `echo old > f; chmod 644 f; touch ../stamp`)
		s := create(t, root)
		sandbox(t, s, `printf both > f; mkdir n; printf both > n/x; echo left > left; touch -r ../stamp f n/x n`)
		before := look(t, root)
		commitAll(t, s, "f", "n/x") // with something left, all is copied
		passTick(t, root)
		outside(t, root, c.change)
		if c.attribute != "" {
			if err := unix.Setxattr(filepath.Join(root, c.attribute), "user.x", []byte("mine"), 0); err != nil {
				t.Fatal(err)
			}
		}
		err := s.Undo(t.Context(), UndoOptions{})
		if c.left == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.As(err, new(*ConflictError)) {
			t.Errorf("%s: without force: %v", name, err)
			continue
		}
		if err := s.Undo(t.Context(), UndoOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		wantSame(t, noDirTimes(look(t, root)), noDirTimes(before))
		dirs, err := s.Aside()
		if err != nil || len(dirs) != 1 {
			t.Fatalf("%s: kept: %q, %v", name, dirs, err)
		}
		if kept := look(t, dirs[0]); !strings.Contains(kept, c.left) && !holds(t, dirs[0], c.left) {
			t.Errorf("%s: not kept: %s", name, kept)
		}
	}
}

// After an undo of a later commit, the restored files belong to the earlier commit again, whatever the session
// contains. Files that somebody changed since then do not.
func TestUndoOfTwo(t *testing.T) {
	testenv.Leaks(t)
	for _, change := range []string{"", `printf mine >n/x; touch -r ../stamp n/x`} {
		root := project(t, `echo old >f; touch ../stamp`)
		before := look(t, root)
		s := create(t, root)
		sandbox(t, s, `printf both >f; mkdir n; printf both >n/x; echo left >left; touch -r ../stamp f n/x`)
		commitAll(t, s, "f", "n/x") // with something left, all is copied
		sandbox(t, s, `printf more >f; printf more >n/x`)
		commitAll(t, s)
		if err := s.Undo(t.Context(), UndoOptions{}); err != nil {
			t.Fatal(err)
		}
		passTick(t, root)
		outside(t, root, change)
		err := s.Undo(t.Context(), UndoOptions{})
		if conflict := errors.As(err, new(*ConflictError)); conflict != (change != "") || !conflict && err != nil {
			t.Errorf("%q: %v", change, err)
		}
		if change == "" {
			wantSame(t, noDirTimes(look(t, root)), noDirTimes(before))
		}
	}
}

// passTick waits until the file system's clock is past the times of all files in root. Two changes within one tick of
// the clock have the same time.
func passTick(t *testing.T, root string) {
	t.Helper()
	probe := func() (st unix.Stat_t) {
		name := filepath.Join(filepath.Dir(root), "tick")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(name)
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	first := probe().Ctim
	testenv.Eventually(t, "a newer time", func() bool { return probe().Ctim != first })
}

// holds reports whether a file below dir has a text.
func holds(t *testing.T, dir, text string) bool {
	t.Helper()
	for _, o := range sightings(t, dir) {
		if o.content == text {
			return true
		}
	}
	return false
}

// A conflict that was decided once is one again when that commit was taken back.
func TestUndoOfDecided(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `echo old > f`)
	s := create(t, root)
	sandbox(t, s, `echo session > f`)
	untilNewer(t, s, root)
	outside(t, root, `echo mine > f`)
	mine := look(t, root)
	if err := s.CommitWith(context.Background(), CommitOptions{Prefer: Theirs}); err != nil {
		t.Fatal(err)
	}
	if err := s.Undo(context.Background(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, look(t, root), mine)
	if err := s.Commit(context.Background()); !errors.As(err, new(*ConflictError)) {
		t.Errorf("again: %v", err)
	}
	wantSame(t, look(t, root), mine)
}

// What the session renamed was never at its new name in the project.
func TestRenamedIsNoConflict(t *testing.T) {
	testenv.Leaks(t)
	for _, kept := range []bool{false, true} {
		root := project(t, `echo data > b; mkdir s; echo 1 > m; echo 1 > gone`)
		s := create(t, root)
		want := sandbox(t, s, `mv b c; echo 2 > m`)
		if kept {
			var list []Change
			for c, err := range s.Changes() {
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, c)
			}
			if err := s.Preserve(context.Background(), list); err != nil {
				t.Fatal(err)
			}
		}
		untilNewer(t, s, root)
		outside(t, root, `echo 1 > unrelated; rm unrelated`)
		commitAll(t, s)
		wantSame(t, withoutTimes(look(t, root)), withoutTimes(want))
		if err := s.Undo(context.Background(), UndoOptions{}); err != nil {
			t.Fatal(err)
		}
		if !kept {
			continue
		}
		outside(t, root, `rm m`)
		var ce *ConflictError
		if err := s.Commit(context.Background()); !errors.As(err, &ce) || len(ce.Conflicts) != 1 || ce.Conflicts[0].Path != "m" {
			t.Errorf("removed: %v", err)
		}
	}
}

// What somebody did between a crash and the next command stays, or is kept aside.
func TestRecoverKeeps(t *testing.T) {
	t.Run("renames with flags", func(t *testing.T) { recoverKeeps(t, func(f func()) error { f(); return nil }) })
	t.Run("plain renames", func(t *testing.T) { recoverKeeps(t, testenv.WithPlainRename) })
}

// recoverKeeps is TestRecoverKeeps with what is done about the renames of the next command.
func recoverKeeps(t *testing.T, with func(func()) error) {
	testenv.Leaks(t)
	root := project(t, `echo old > f; echo 1 > gone`)
	before := noDirTimes(look(t, root))
	s := create(t, root)
	sandbox(t, s, `mkdir d; echo 1 > d/a; echo new > f; rm gone`)
	c := newCommit(s, CommitOptions{})
	if err := c.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.tx.Forward(true); err != nil {
		t.Fatal(err)
	}
	c.close() // the process is killed
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	outside(t, root, `echo mine > d/notes; echo mine >> d/a; echo mine > f`)

	dir := filepath.Dir(s.Dir())
	told := 0
	if err := with(func() {
		for r, err := range Recover(dir) {
			if told++; r.ID != s.ID() || !errors.Is(err, tx.ErrAside) {
				t.Errorf("%+v, %v", r, err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	s = reopen(t, s)
	aside, err := s.Aside()
	if err != nil || len(aside) != 1 {
		t.Fatalf("%q, %v", aside, err)
	}
	in := 0
	for _, top := range append(aside, root) {
		err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if data, _ := os.ReadFile(p); string(data) == "mine\n" || string(data) == "1\nmine\n" {
					in++
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if in != 3 {
		t.Errorf("%d of three files are anywhere", in)
	}
	wantSame(t, noDirTimes(look(t, root)), before)
}

// TestRecoverKeepsSinceUndo: what somebody wrote between the crash of an undo by force and the next command stays, and
// so does what that undo had moved aside.
func TestRecoverKeepsSinceUndo(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `echo old > f; echo old > g; echo old > h`)
	s := create(t, root)
	sandbox(t, s, `echo new > f; echo new > g; echo new > h`)
	commitAll(t, s)
	outside(t, root, `echo theirs > x; mv x f; rm g`)
	last, err := s.log.Reopen(s.meta.Done[len(s.meta.Done)-1])
	if err != nil {
		t.Fatal(err)
	}
	last.Force = true
	if err := s.book.MarkPending(); err != nil {
		t.Fatal(err)
	}
	if err := last.Backward(); err != nil {
		t.Fatal(err)
	}
	last.Close() // the process is killed
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantSame(t, text(t, root, "f", "g", "h"), "old\nold\nold\n")
	outside(t, root, `echo mine >> f; echo mine >> g`)
	for r, err := range Recover(filepath.Dir(s.Dir())) {
		if err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	wantSame(t, text(t, root, "f", "g", "h"), "old\nmine\nold\nmine\nnew\n")
	s = reopen(t, s)
	if !holds(t, s.Dir(), "theirs\n") {
		t.Error("what the undo had moved aside is nowhere")
	}
}

// text returns the content of files.
func text(t *testing.T, dir string, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
