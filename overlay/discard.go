//go:build linux

package overlay

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Discard discards the session's changes. Undo makes the session Kept again, until it is removed (see Clean), because
// its data stays on disk. Lost are only writes that were not collected, and on a full disk everything. Erase frees the
// space.
func (s *Session) Discard() error { return s.end(false) }

// Erase discards the session's changes for ever. The session stays in List; see Remove. For a session that was
// discarded, it frees the space.
func (s *Session) Erase() error { return s.end(true) }

func (s *Session) end(good bool) error {
	const op = "discard"
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil && (s.dir == nil || s.readOnly || s.meta.State != store.Discarded) {
		return err
	}
	if err := s.checkDependents(); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	good = good || s.mem != nil // which goes with us
	if !good && s.meta.State == store.Discarded && s.meta.Thrown {
		return nil
	}
	if !good && s.meta.State == store.Kept {
		m := *s.meta
		m.State, m.Thrown = store.Discarded, true
		err := s.decideMeta(&m, wasDiscarded)
		if err == nil {
			return nil
		}
		if Done(err) || !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return &Error{Op: op, Path: s.path, Err: err}
		}
		// The disk may be full of what is to be discarded.
	}
	if err := s.discard(); err != nil {
		if s.meta.State == store.Discarded {
			err = &doneError{err, wasDiscarded}
		}
		return &Error{Op: op, Path: s.path, Err: err}
	}
	return nil
}

const wasDiscarded = "it was discarded"

// discard discards for good what the session wrote. One rename decides it; that needs no space on a full disk.
func (s *Session) discard() error {
	if err := s.book.MarkPending(); err != nil && err != unix.ENOSPC && err != unix.EDQUOT {
		return err
	}
	kept := "upper"
	if s.stored() {
		kept = tree.PackedName
	}
	err := s.dir.Rename(kept, goneName, 0)
	if err == unix.ENOENT && s.stored() {
		err = s.dir.Mkdir(goneName) // what was written was lost
	}
	if err != nil && err != unix.ENOENT && err != unix.EEXIST {
		return err
	}
	if _, err := s.finishDiscard(); err != nil {
		return err
	}
	return s.book.Unmark()
}

// goneName is the directory of what the session wrote, once it is decided to discard it.
const goneName = "gone"

// finishDiscard completes a discard that was interrupted after that rename, and says so.
func (s *Session) finishDiscard() (what string, err error) {
	_, gone, err := s.dir.LstatIf(goneName)
	if err != nil {
		return "", err
	}
	if !gone && (s.meta.State != store.Discarded || s.meta.Thrown) {
		return "", nil
	}
	if gone {
		what = "the session was discarded"
		m := *s.meta
		m.State, m.Thrown, m.Dropped = store.Discarded, false, nil
		_, err := store.WriteMeta(s.dir, &m, new(tree.Flusher))
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			// The disk may be full of what is to be removed. Its directory stays, as the record of the
			// decision.
			if err := s.emptyGone(); err != nil {
				return what, err
			}
			_, err = store.WriteMeta(s.dir, &m, new(tree.Flusher))
		}
		if err != nil {
			return what, err
		}
		s.setLoaded(&m)
	}
	for _, name := range [...]string{goneName, "upper", "work", store.MemName, tree.PackedName, tree.PackingName,
		tree.PackedOld, copiedName, copyingName, store.ScratchName, baseName, store.UnsyncedName} {
		if err := tree.RemoveTree(s.dir, name); err != nil {
			return what, fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return what, nil
}

// emptyGone removes what is in the directory of what is gone.
func (s *Session) emptyGone() error {
	gone, err := s.dir.OpenDir(goneName)
	if err != nil {
		return err
	}
	defer gone.Close()
	names, err := gone.Names()
	for _, name := range names {
		if err := tree.RemoveTree(gone, name); err != nil {
			return fmt.Errorf("remove upper: %w", err)
		}
	}
	return err
}

// Remove discards the session, removes every trace of it, and closes it. It is for sessions that changed nothing, and
// for removing old ones.
func (s *Session) Remove() error {
	defer s.lockUnmounted()()
	gone, err := s.away()
	if err != nil {
		return err
	}
	state, err := s.state.Open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return &Error{Op: opRemove, Path: s.path, Err: err}
	}
	defer state.Close()
	s.release()
	if err := store.RemoveClosed(state, gone); err != nil {
		return &Error{Op: opRemove, Path: s.path, Err: err}
	}
	return nil
}

// away renames the session's directory, so that nobody sees a part of it. Calling it again does nothing.
func (s *Session) away() (name string, err error) {
	if s.dir == nil || s.readOnly {
		return "", &Error{Op: opRemove, Path: s.path, Err: s.closed()}
	}
	if err := s.checkDependents(); err != nil {
		return "", &Error{Op: opRemove, Path: s.path, Err: err}
	}
	name = store.GonePrefix + s.id
	if err := s.state.Rename(s.id, name, 0); err != nil && err != unix.ENOENT {
		return "", &Error{Op: opRemove, Path: s.path, Err: err}
	}
	return name, nil
}
