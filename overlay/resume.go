//go:build linux

package overlay

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
)

// Resume makes s ready for another command, whose writes are added to what the session
// holds already. From now on List shows that command; nil leaves the one before.
//
// A session that has ended is ErrEnded. So that nothing is laid over what it was not
// written for, a root that is another directory than when the session began is an
// error, and so is a session that another one stands on. What changed in the project since then is not: the command sees it, but where
// it writes to the same file, a commit reports a conflict.
func (s *Session) Resume(command []string) error {
	return s.ResumeContext(context.Background(), command)
}

// ResumeContext is Resume, which ctx ends: with EngineCopy the project is copied.
func (s *Session) ResumeContext(ctx context.Context, command []string) (err error) {
	const op = "resume session"
	defer func() { err = public(err) }()
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
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
		// The kernel empties the work directory of an overlay that was used before.
		for _, name := range []string{"work", store.WorkName(i)} {
			if err := s.dir.Mkdir(name); err != nil && err != unix.EEXIST {
				return fail(r.Work, err)
			}
		}
	}
	if err := s.rearm(ctx); err != nil {
		return fail(s.path, err)
	}
	s.fresh = false
	s.holdIndexes()
	s.noteWritten()
	// Of a command that was killed, together with whoever would have removed it.
	if err := s.staleScratch(); err != nil {
		return fail(s.path, err)
	}
	// A full disk is no reason to refuse: what fills it may be what the command is to
	// remove.
	err = store.NoteUse(s.dir, command)
	if err != nil && err != unix.ENOSPC && err != unix.EDQUOT {
		return fail(s.path, err)
	}
	if st, found, lerr := s.dir.LstatIf(store.LastName); err == nil && lerr == nil && found {
		s.began = st.Mtime.Nano()
	}
	return nil
}
