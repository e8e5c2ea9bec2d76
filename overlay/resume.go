//go:build linux

package overlay

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
)

// Resume prepares s for another command, whose writes are added to those in the session. From now on List shows that
// command; nil keeps the previous one.
//
// If the session has ended, the error is ErrEnded. It is an error if a root is not the directory that it was when the
// session began, so that the changes are not laid over other files, or if another session is based on this one. Changes
// in the project since then are no error: the command sees them, but if it writes to the same file, a commit reports a
// conflict.
func (s *Session) Resume(command []string) error {
	return s.ResumeContext(context.Background(), command)
}

// ResumeContext is like Resume, but stops if ctx ends: with EngineCopy, copying the project can take long.
func (s *Session) ResumeContext(ctx context.Context, command []string) (err error) {
	const op = "resume session"
	defer func() { err = public(err) }()
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
	}
	if err := s.unmounted.await(ctx); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	if err := s.checkDependents(); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	fail := func(path string, err error) error { return &Error{Op: op, Path: path, Err: err} }
	for i, r := range s.rootList() {
		low, err := s.root(i)
		if err != nil {
			return err
		}
		st, err := low.Stat()
		if err == nil && st.Ino != s.meta.Roots[i].Ino {
			err = errors.New("it " + store.WhyReplaced)
		}
		if err != nil {
			return fail(r.Path, err)
		}
		if s.stored() {
			continue
		}
		for _, name := range []string{"work", store.WorkName(i)} {
			if err := s.dir.Mkdir(name); err != nil && err != unix.EEXIST {
				return fail(r.Work, err)
			}
		}
	}
	if err := counted(ctx, s.rearm); err != nil {
		return fail(s.path, err)
	}
	if err := s.clearWork(); err != nil {
		return fail(s.path, err)
	}
	s.mu.Lock()
	s.mounted = false
	s.beginUnsynced(s.markAgain)
	s.mu.Unlock()
	s.fresh = false
	s.holdIndexes()
	s.noteWritten()
	// Left by a command that was killed, together with the process that would have removed it.
	if err := s.staleScratch(); err != nil {
		return fail(s.path, err)
	}
	// A full disk is not an error here: the command may be about to remove what fills it.
	err = store.NoteUse(s.dir, command)
	if err != nil && err != unix.ENOSPC && err != unix.EDQUOT {
		return fail(s.path, err)
	}
	if st, found, lerr := s.dir.LstatIf(store.LastName); err == nil && lerr == nil && found {
		s.began = st.Mtime.Nano()
	}
	return nil
}
