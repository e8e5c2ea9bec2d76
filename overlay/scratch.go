package overlay

import (
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
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
	if err := unix.Mkdirat(at.fd, scratchName, 0o700); err != nil && err != unix.EEXIST {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
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
	if err := unix.Fchmodat(at.fd, upper, st.Mode&0o777, 0); err != nil {
		return mounts.Mount{}, &Error{Op: op, Path: s.path, Err: err}
	}
	m = mounts.Overlay(dir, filepath.Join(s.areaPath(), upper), filepath.Join(s.areaPath(), work), dir)
	m.Volatile = true // nothing of it is needed again
	return m, nil
}

// makePair makes an upper and a work directory, and returns their number.
func makePair(at *handle) (n int, err error) {
	for n = 1; ; n++ {
		err := unix.Mkdirat(at.fd, scratchUpper(n), 0o700)
		if err == unix.EEXIST {
			continue
		}
		if err == nil {
			err = unix.Mkdirat(at.fd, scratchWork(n), 0o700)
		}
		return n, err
	}
}

func scratchUpper(n int) string { return scratchName + "/upper" + strconv.Itoa(n) }
func scratchWork(n int) string  { return scratchName + "/work" + strconv.Itoa(n) }

// DropScratch removes what was written to scratch overlays. None of them may be
// in use.
func (s *Session) DropScratch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil || s.readOnly {
		return nil
	}
	s.scratch = 0
	if err := removeTree(s.area(), scratchName); err != nil {
		return &Error{Op: "remove scratch directory", Path: s.path, Err: err}
	}
	return nil
}
