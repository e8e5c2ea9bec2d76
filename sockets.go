//go:build linux

package nsrun

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
)

// socketSearch finds the sockets of the host that must be hidden, while the command is prepared. Slow searches run in
// the background of prepare, once: most often they find nothing.
type socketSearch struct {
	all     bool // folders or rules show files of the host as they are
	first   chan foundSockets
	distant chan foundSockets // nil: nobody has begun
	known   []string          // that were found there
	looked  bool
	ended   *atomic.Bool // the command has, or will not start: nothing need be found
}

type foundSockets struct {
	paths []string
	err   error // something may be missing
}

// begin starts a search. With all, sockets in private places matter, too, because folders and rules show them. With
// explain, near waits for everything.
func (s *socketSearch) begin(all, explain bool) {
	s.all, s.first = all, make(chan foundSockets, 1)
	first := s.distant == nil
	if first {
		s.distant, s.ended = make(chan foundSockets, 1), new(atomic.Bool)
	}
	go func(near, distant chan<- foundSockets, ended *atomic.Bool) {
		found, more, err := host.FindSockets(all, ended)
		switch {
		case first && explain:
			others, merr := more()
			near <- foundSockets{append(found, others...), cmp.Or(err, merr)}
			distant <- foundSockets{}
		case first:
			near <- foundSockets{found, err}
			found, err = more()
			distant <- foundSockets{found, err}
		default:
			near <- foundSockets{found, err}
		}
	}(s.first, s.distant, s.ended)
}

// end ends what is still searched for, which keeps files open and a processor busy.
func (s *socketSearch) end() {
	if s.ended != nil {
		s.ended.Store(true)
	}
}

// near waits for the fast part.
func (s *socketSearch) near() ([]string, error) {
	found := <-s.first
	return append(found.paths, s.known...), found.err
}

// errMoreHidden says that the command has to be prepared again.
var errMoreHidden = errors.New("more paths must be hidden or read-only")

// gate returns a function that the command must wait for before it is executed, while its sandbox is set up; nil:
// nothing. roots are those of its session. An error says that there are already more sockets. With once, the sandbox
// cannot be set up a second time, so gate waits for everything now.
func (s *socketSearch) gate(roots []string, once bool) (func() error, error) {
	if s.looked {
		return nil, nil
	}
	if once {
		return nil, s.take(<-s.distant, roots)
	}
	select {
	case found := <-s.distant:
		return nil, s.take(found, roots)
	default:
		return func() error { return s.take(<-s.distant, roots) }, nil
	}
}

// take takes what was found. If all of a session is shown through overlays, its sockets cannot be connected to.
func (s *socketSearch) take(found foundSockets, roots []string) error {
	s.looked = true
	if found.err != nil {
		return found.err
	}
	s.known = slices.DeleteFunc(found.paths, func(path string) bool {
		return !s.all && (plan.Private(path) || paths.InAny(path, roots))
	})
	if len(s.known) > 0 {
		return errMoreHidden
	}
	return nil
}

// binds reports whether folders or rules show files of the host directly, not through an overlay.
func (c *Config) binds(f *plan.Folders, q *Request) bool {
	shows := func(r Rule) bool { return r.Mode != Blocked && r.Mode != Protected }
	return len(f.Direct) > 0 || len(f.ReadOnly) > 0 || slices.ContainsFunc(c.Rules, shows) || slices.ContainsFunc(q.Paths, shows)
}
