//go:build linux

package overlay

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// Info describes a session.
type Info struct {
	ID      string
	Dir     string // the session's directory
	Created time.Time
	Command []string // nil: unknown
	State   State    // zero: Kept
	Roots   []Root
	Busy    bool   // somebody holds the session open
	On      string // the session that it was begun on; empty: none
	Engine  Engine

	// Commits is how many commits Undo can take back.
	Commits int

	// Undo is what Session.Undo takes back next, and Decided when that was done. Zero: there is
	// nothing.
	Undo    Deed
	Decided time.Time

	// Interrupted says that something was begun with the session, and could be neither
	// finished nor taken back: Recover tells why.
	Interrupted bool
}

// Info describes the session.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := Info{
		ID: s.id, Dir: s.path, Created: s.meta.Created, State: stateOf(s.meta.State), On: s.meta.On, Engine: engineOf(s.meta.Engine),
		Roots: s.rootList(), Commits: len(s.meta.Done), Busy: s.lock != nil || s.busy, Command: store.LastCommand(s.dir, s.meta),
	}
	if info.Undo = lastDeed(s.meta); info.Undo != NoDeed {
		info.Decided = s.decided()
	}
	info.Interrupted = !info.Busy && s.state != nil && store.Pending(s.state, s.id)
	return info
}

func readInfo(state *tree.Handle, statePath, name string) (Info, error) {
	info := Info{ID: name, Dir: filepath.Join(statePath, name)}
	fail := func(err error) (Info, error) {
		return info, &Error{Op: "read session", Path: info.Dir, Err: err}
	}
	marked := store.Pending(state, name)
	dir, m, err := store.OpenMeta(state, name)
	if err != nil {
		if err == unix.ENOENT { // not the whole session is gone
			err = errors.New("the session's data is missing")
		}
		return fail(err)
	}
	defer dir.Close()
	s := Session{dir: dir, meta: m}
	s.name(name, statePath)
	info = s.Info()
	who, err := store.Locked(dir)
	if err = store.OrGone(state, name, dir, err); err != nil {
		return fail(err)
	}
	info.Busy = who == store.Owner
	// It was on the list before and is after: whoever used it in between did not end yet.
	info.Interrupted = marked && who == store.Unheld && store.Pending(state, name)
	return info, nil
}
