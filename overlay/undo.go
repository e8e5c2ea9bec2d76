//go:build linux

package overlay

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// ErrNoCommit is what Undo wraps where there is nothing to take back.
var ErrNoCommit = errors.New("nothing to take back")

// Undo takes back what was done last about the session's changes (Info.Undo): a commit, a drop
// or a discard. The session is Kept then.
//
// Of a commit, what it replaced and deleted is put back, what it made is taken out again.
// Whatever it did not touch stays as it is. Its changes can be committed again.
//
// Where the project was changed since in what the commit did, the error is a
// *ConflictError and nothing is done, unless that is forced. As with Commit every error
// but a *CommitError means that nothing was done.
func (s *Session) Undo(ctx context.Context, o UndoOptions) (err error) {
	const op = "undo"
	defer func() { err = public(err) }()
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
	t.Plain, t.Force = s.log.Plain, o.Force
	if o.Progress != nil {
		t.Progress = func(done, total int) { o.Progress(Progress{Done: done, Total: total}) }
	}
	err = t.SinceThen(ctx, func(at store.Place) bool { return s.gitFileAt(at) == gitNote })
	// What was opened to look may be moved now: then nobody would find it to close it.
	if err := cmp.Or(err, t.Doors.Relock()); err != nil {
		return err
	}
	if err := t.Restage(ctx); err != nil {
		return errors.Join(err, t.DropStages(), s.book.Unmark())
	}
	err = s.takeAllBack(t)
	if err == nil {
		err = errors.Join(t.Flush(), t.End())
	}
	if commitErr := new(CommitError); err != nil && !slices.Contains(s.meta.Done, t.N) && !errors.As(err, &commitErr) {
		return &CommitError{Err: err}
	}
	return err
}

// takeAllBack makes the project be as before, or leaves it as it was.
func (s *Session) takeAllBack(t *tx.Tx) error {
	err := s.book.MarkPending()
	if err == nil {
		err = s.book.Flush()
	}
	if err != nil {
		return errors.Join(&Error{Op: "undo", Path: s.path, Err: err}, t.DropStages(), s.book.Unmark())
	}
	if err = t.Backward(); err == nil {
		err = t.Undone()
	}
	if err != nil && slices.Contains(s.meta.Done, t.N) {
		if again := t.Redo(); again != nil {
			return &CommitError{Err: errors.Join(err, again)}
		}
		return errors.Join(err, t.DropStages(), s.book.Unmark())
	}
	if err != nil {
		return &CommitError{Err: err}
	}
	return nil
}
