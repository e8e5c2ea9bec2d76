//go:build linux

package nsrun

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
)

// socketSearch finds the sockets of the host that are to be hidden, while the command is made ready. What takes longer is
// looked for beside all of prepare, once: most often it finds nothing.
type socketSearch struct {
	all     bool // folders or rules show files of the host as they are
	first   chan []string
	distant chan []string // nil: nobody has begun
	known   []string      // that were found there
	looked  bool
}

// begin begins a search. With all, sockets in private places matter too: folders and rules show what is there. With explain
// near waits for everything.
func (s *socketSearch) begin(all, explain bool) {
	s.all, s.first = all, make(chan []string, 1)
	first := s.distant == nil
	if first {
		s.distant = make(chan []string, 1)
	}
	go func(near, distant chan<- []string) {
		found, more := host.FindSockets(all)
		switch {
		case first && explain:
			near <- append(found, more()...)
			distant <- nil
		case first:
			near <- found
			distant <- more()
		default:
			near <- found
		}
	}(s.first, s.distant)
}

// near waits for what is found soon.
func (s *socketSearch) near() []string { return append(<-s.first, s.known...) }

// errMoreHidden says that the command has to be prepared anew.
var errMoreHidden = errors.New("there is more to be blocked, or to be read-only")

// gate is what a command has to wait for before it is executed, while its sandbox is set up; nil: nothing. The roots are
// those of its session. An error says that there are more sockets already. With once, the sandbox cannot be set up a
// second time, and so everything is waited for now.
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

// take takes what was found. Where all of a session is shown through overlays, sockets in it lead nowhere.
func (s *socketSearch) take(found, roots []string) error {
	s.looked = true
	s.known = slices.DeleteFunc(found, func(path string) bool {
		return !s.all && (plan.Private(path) || paths.InAny(path, roots))
	})
	if len(s.known) > 0 {
		return errMoreHidden
	}
	return nil
}

// binds reports whether folders or rules show files of the host as they are, not through an overlay.
func (c *Config) binds(f *plan.Folders, q *Request) bool {
	shows := func(r Rule) bool { return r.Mode != Blocked && r.Mode != Protected }
	return len(f.Direct) > 0 || len(f.ReadOnly) > 0 || slices.ContainsFunc(c.Rules, shows) || slices.ContainsFunc(q.Paths, shows)
}
