//go:build linux

package overlay

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Scratch returns an overlay over dir for files that need not be kept, such as the caches of build
// tools: writes there are no changes of the session. DropScratch removes them. If no overlay can be
// mounted (EngineCopy), the mount is read-only.
func (s *Session) Scratch(dir string) (m mounts.Mount, err error) {
	const op = "make scratch directory"
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(op, true); err != nil {
		return mounts.Mount{}, err
	}
	if s.meta.Engine == store.Copy {
		return mounts.ROBind(dir, dir), nil
	}
	at := s.area()
	if err := at.Mkdir(store.ScratchName); err != nil && err != unix.EEXIST {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
	s.cleared = false
	n := s.scratch
	if n > 0 {
		s.scratch--
	} else if n, err = store.MakePair(at); err != nil {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
	upper, work := store.ScratchUpper(n), store.ScratchWork(n)
	// The overlay's root shows the mode of the upper directory.
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return mounts.Mount{}, &Error{Op: op, Path: dir, Err: err}
	}
	if err := unix.Fchmodat(int(at.FD), upper, st.Mode&0o777, 0); err != nil {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
	m = mounts.Overlay(dir, filepath.Join(s.areaPath(), upper), filepath.Join(s.areaPath(), work), dir)
	m.Volatile = true // nothing of it is needed again
	return m, nil
}

// ClearScratch is like DropScratch, for a session that will be resumed: it keeps, until Close, what
// the next command can use.
func (s *Session) ClearScratch() (err error) {
	defer s.lockUnmounted()()
	if s.meta.Engine != store.Overlay {
		return s.dropScratch()
	}
	if s.dir == nil || s.readOnly || s.cleared {
		return nil
	}
	if s.scratch, err = store.ClearScratch(s.area()); err != nil {
		return &Error{Op: "clear scratch directory", Path: s.path, Err: err}
	}
	s.cleared = true
	if err = s.clearWork(); err == nil {
		s.mounted = false
	}
	return err
}

// DropScratch removes what was written to scratch overlays (see Scratch). None of them may be in use.
func (s *Session) DropScratch() error {
	defer s.lockUnmounted()()
	return s.dropScratch()
}

// dropScratch is DropScratch for a caller that holds s.mu.
func (s *Session) dropScratch() error {
	if s.dir == nil || s.readOnly {
		return nil
	}
	s.scratch = 0
	if err := tree.RemoveTree(s.area(), store.ScratchName); err != nil {
		return &Error{Op: "remove scratch directory", Path: s.path, Err: err}
	}
	return nil
}

// staleScratch removes what was written to scratch overlays unless it was cleared.
func (s *Session) staleScratch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared {
		return nil
	}
	s.scratch = 0
	return tree.RemoveTree(s.dir, store.ScratchName)
}
