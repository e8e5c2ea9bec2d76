//go:build linux

package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// scratchName is the directory of a session that holds what was written to
// scratch overlays.
const scratchName = "scratch"

// Scratch returns an overlay over dir for what need not be kept, such as the
// caches of build tools: what is written there is no change of the session.
// DropScratch removes it. Where no overlay can be mounted (EngineCopy) it is read-only.
func (s *Session) Scratch(dir string) (m mounts.Mount, err error) {
	const op = "make scratch directory"
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(op, true); err != nil {
		return mounts.Mount{}, err
	}
	if s.meta.Engine == EngineCopy {
		return mounts.ROBind(dir, dir), nil
	}
	at := s.area()
	if err := at.Mkdir(scratchName); err != nil && err != unix.EEXIST {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
	s.cleared = false
	n := s.scratch
	if n > 0 {
		s.scratch--
	} else if n, err = makePair(at); err != nil {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
	upper, work := scratchUpper(n), scratchWork(n)
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

// makePair makes an upper and a work directory, and returns their number.
func makePair(at *tree.Handle) (n int, err error) {
	for n = 1; ; n++ {
		err := at.Mkdir(scratchUpper(n))
		if err == unix.EEXIST {
			continue
		}
		if err == nil {
			// Who was to remove an earlier pair may have been killed in the middle of it.
			err = tree.RemoveTree(at, scratchWork(n))
		}
		if err == nil {
			err = at.Mkdir(scratchWork(n))
		}
		return n, err
	}
}

func scratchUpper(n int) string { return scratchName + "/upper" + strconv.Itoa(n) }
func scratchWork(n int) string  { return scratchName + "/work" + strconv.Itoa(n) }

// clearScratch removes what was written to scratch overlays, and returns how many pairs of
// directories are there for the next ones: those that nothing was written to, if there are
// no others.
func clearScratch(at *tree.Handle) (n int, err error) {
	for n = 0; ; n++ {
		clean, err := clearPair(at, n+1)
		if err == unix.ENOENT {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if !clean {
			return 0, tree.RemoveTree(at, scratchName)
		}
	}
}

// clearPair makes a pair of directories be as new, and reports whether it can: not if something
// was written, or given to the directory itself, or if the kernel has noted what it was over.
func clearPair(at *tree.Handle, n int) (bool, error) {
	up, err := at.OpenDir(scratchUpper(n))
	if err != nil {
		return false, err
	}
	defer up.Close()
	st, err := up.Stat()
	if err != nil || int(st.UID) != os.Geteuid() {
		return false, err
	}
	names, err := up.Names()
	if err != nil || len(names) > 0 {
		return false, err
	}
	attrs, err := up.XattrNames()
	if err != nil || slices.ContainsFunc(attrs, func(a string) bool { return !isMark(a, "impure", "uuid") }) {
		return false, err
	}
	// A mark of the kernel's in it says that what was written may not be on disk.
	return true, tree.RemoveTree(at, scratchWork(n)+"/work")
}

// ClearScratch is DropScratch for a session that is to be resumed: what the next command
// can use is kept for it, until Close.
func (s *Session) ClearScratch() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.Engine != EngineOverlay {
		return s.dropScratch()
	}
	if s.dir == nil || s.readOnly || s.cleared {
		return nil
	}
	if s.scratch, err = clearScratch(s.area()); err != nil {
		return &Error{Op: "clear scratch directory", Path: s.path, Err: err}
	}
	s.cleared = true
	return nil
}

// DropScratch removes what was written to scratch overlays. None of them may be
// in use.
func (s *Session) DropScratch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropScratch()
}

// dropScratch is DropScratch for who holds s.mu.
func (s *Session) dropScratch() error {
	if s.dir == nil || s.readOnly {
		return nil
	}
	s.scratch = 0
	if err := tree.RemoveTree(s.area(), scratchName); err != nil {
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
	return tree.RemoveTree(s.dir, scratchName)
}
