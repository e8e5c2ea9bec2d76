//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Undo takes back the last operation on the session's changes (Info.Undo): a commit, a drop or a
// discard. The session is then Kept.
//
// Undoing a commit restores what it replaced and deleted, and removes what it added. Whatever it
// did not touch stays as it is. Its changes can be committed again.
//
// If somebody has since changed in the project what the commit changed, the error is a
// *ConflictError, and nothing is done, unless o.Force is set. As with Commit, nothing was done
// after any error except a *CommitError and one of which Done reports true.
func (s *Session) Undo(ctx context.Context, o UndoOptions) (err error) {
	const op = "undo"
	defer func() { err = s.public(op, err) }()
	s.work.Lock()
	defer s.work.Unlock()
	if s.dir == nil || s.readOnly {
		return &Error{Op: op, Path: s.path, Err: s.closed()}
	}
	if other, err := s.undo(ctx); other {
		return err
	}
	t, err := s.log.Reopen(s.meta.Done[len(s.meta.Done)-1])
	if err == nil && (t.Journal == nil || t.Objects == nil) {
		t.Close()
		err = fs.ErrNotExist
	}
	if err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	defer t.Close()
	changed := make([]bool, len(s.roots))
	for i := range t.Journal.Nodes {
		changed[t.Journal.Nodes[i].Root] = true
	}
	if err = s.checkWritable(op, changed); err != nil {
		return err
	}
	t.Plain, t.Force = s.log.Plain, o.Force
	if o.Progress != nil {
		t.Progress = func(done, total int) { o.Progress(Progress{Done: done, Total: total}) }
	}
	equal := sameAsSession{s: s}
	defer equal.close()
	err = t.SinceThen(ctx, func(at store.Place) bool { return s.gitFileAt(at) == gitNote }, equal.at)
	// Directories that were made accessible for the comparison may be moved now: then nobody would find them to
	// restore their modes.
	if err := cmp.Or(err, t.Doors.Relock()); err != nil {
		return err
	}
	if err := t.Restage(ctx); err != nil {
		return errors.Join(err, t.Tidy())
	}
	err = s.takeAllBack(t)
	if err == nil {
		err = tree.InTurn(t.Flush, t.End)
	}
	if commitErr := new(CommitError); err != nil && !slices.Contains(s.meta.Done, t.N) && !errors.As(err, &commitErr) {
		return &CommitError{Err: err, undone: true}
	}
	return err
}

// sameAsSession compares objects of the project with the session's.
type sameAsSession struct {
	s      *Session
	ups    map[int]tree.Tree
	ledger tx.Ledger
}

func (c *sameAsSession) close() {
	for _, up := range c.ups {
		up.Close()
	}
}

// at reports whether the project's object at a place, in the directory low, is what the session has there. If that is
// unknown, it is not; but an object that its owner may not read counts as the same, and so does one that nobody changed
// since nsrun took a later commit back: the session may have another version since.
func (c *sameAsSession) at(at store.Place, low tree.Dir, now tree.Stat) bool {
	if c.ledger.At == nil {
		c.ledger.Load(c.s.meta)
	}
	if own, ok := c.ledger.At[at]; ok && own.Lower == now.Ctime || !now.IsDir() && c.ledger.Files[now.Ino] == now.Ctime {
		return true
	}
	top, ok := c.ups[at.Root]
	if !ok {
		var err error
		if top, err = c.s.upperTree(at.Root); err != nil {
			return false
		}
		if c.ups == nil {
			c.ups = map[int]tree.Tree{}
		}
		c.ups[at.Root] = top
	}
	dir, name := tree.SplitPath(at.Path)
	up, err := top.At(dir)
	if err != nil {
		return false
	}
	defer up.Close()
	st, found, err := up.Lstat(name)
	if err != nil || !found {
		return false
	}
	// The caller has compared mode and owner with those that the commit noted. A file system may have others than the
	// session.
	same, err := tree.SameContent(up, low, name, st, now)
	return same && err == nil || err == unix.EACCES
}

// takeAllBack restores the earlier state of the project, or changes nothing.
func (s *Session) takeAllBack(t *tx.Tx) error {
	err := s.book.MarkPending()
	if err == nil {
		err = s.book.Flush()
	}
	if err != nil {
		return errors.Join(&Error{Op: "undo", Path: s.path, Err: err}, t.Tidy())
	}
	if err = t.Backward(); err == nil {
		err = t.Undone()
	}
	if err != nil && slices.Contains(s.meta.Done, t.N) {
		if again := t.Redo(); again != nil {
			return &CommitError{Err: errors.Join(err, again), perhaps: true}
		}
		return errors.Join(err, t.Tidy())
	}
	if err != nil {
		return &CommitError{Err: err, undone: true}
	}
	return nil
}

// undiscard takes a discard back.
func (s *Session) undiscard() error {
	m := *s.meta
	m.State, m.Thrown = store.Kept, false
	return s.revive(&m)
}

// undrop takes the last drop back.
func (s *Session) undrop() error {
	m := *s.meta
	m.State, m.Thrown = store.Kept, false
	last := m.Dropped[len(m.Dropped)-1]
	m.Dropped = slices.Clone(m.Dropped[:len(m.Dropped)-1])
	var l tx.Ledger
	l.Load(&m)
	for _, p := range last.Paths {
		at := store.Place{Root: p.Now.Root, Path: string(p.Now.Path)}
		now, ok := l.At[at]
		switch {
		case ok && now.Lower != p.Now.Lower:
			// A commit that was taken back has touched the project's object since.
			l.Set(at, store.Settled{Lower: now.Lower})
		case p.Was == nil:
			delete(l.At, at)
		default:
			l.Set(at, *p.Was)
		}
	}
	l.Save(&m)
	return s.revive(&m)
}

// revive makes the session Kept, with the data m, if the session that it is based on exists.
func (s *Session) revive(m *store.Meta) error {
	list, err := store.Bases(s.state, "", m)
	store.CloseBases(list)
	if err == nil && s.stored() {
		var packed *tree.Handle
		if packed, _, err = tree.Unpacked(s.dir); err == unix.ENOENT {
			_, copied, cerr := s.dir.LstatIf(copiedName)
			if err = cerr; err == nil && !copied {
				err = s.lost()
			}
		}
		packed.Close()
	}
	if err == nil {
		err = s.decideMeta(m, "it was taken back")
	}
	if err != nil {
		return &Error{Op: "undo", Path: s.path, Err: err}
	}
	return nil
}

// undo takes back the last operation, unless that was a commit; ok says that it was not.
func (s *Session) undo(ctx context.Context) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	switch lastDeed(s.meta) {
	case NoDeed:
		return true, &Error{Op: "undo", Path: s.path, Err: ErrNoCommit}
	case DiscardDeed:
		return true, s.undiscard()
	case DropDeed:
		return true, s.undrop()
	}
	return false, nil
}
