//go:build linux

package nsrun

import (
	"github.com/nsrun/nsrun/internal/host"
)

// An inPlaceSearch finds what git uses in folders that are written to directly, while the command is prepared. Slow
// searches run in the background of prepare, and while the sandbox is set up: usually they find nothing that has to be
// read-only.
type inPlaceSearch struct {
	first, last chan inPlaceFound
	taken       bool         // last was received
	rest        host.InPlace // from last
}

type inPlaceFound struct {
	in   host.InPlace
	more bool // than what is mounted
	err  error
}

// searchInPlace starts a search. With whole, it is completed at once.
func searchInPlace(dirs []string, git, whole bool) *inPlaceSearch {
	if len(dirs) == 0 {
		return nil
	}
	s := &inPlaceSearch{first: make(chan inPlaceFound, 1), last: make(chan inPlaceFound, 1)}
	go func() {
		near, rest, err := host.DirectMounts(dirs, git)
		switch {
		case err != nil:
			s.first <- inPlaceFound{err: err}
		case whole:
			all, more, err := rest()
			if err == nil && !more {
				near.Known, near.Later = all.Known, append(near.Later, all.Later...)
				all = near
			}
			s.first <- inPlaceFound{in: all, err: err}
			s.last <- inPlaceFound{}
		default:
			s.first <- inPlaceFound{in: near}
			all, more, err := rest()
			s.last <- inPlaceFound{all, more, err}
		}
	}()
	return s
}

// near waits for the fast part. It is called once.
func (s *inPlaceSearch) near() (host.InPlace, error) {
	if s == nil {
		return host.InPlace{}, nil
	}
	found := <-s.first
	return found.in, found.err
}

// gate waits for the rest. Its error may say that the command has to be prepared again.
func (s *inPlaceSearch) gate() error {
	if s == nil || s.taken {
		return nil
	}
	s.taken = true
	last := <-s.last
	s.rest = last.in
	if last.more && last.err == nil {
		return errMoreHidden
	}
	return last.err
}

// found is the result of the rest, once gate has returned nil.
func (s *inPlaceSearch) found() host.InPlace {
	if s == nil {
		return host.InPlace{}
	}
	return s.rest
}
