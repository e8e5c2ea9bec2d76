//go:build linux

package overlay

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// A Deed is something that was done about a session's changes, and can be taken back.
type Deed uint8

// The deeds. Zero: there is nothing to take back.
const (
	NoDeed      Deed = iota
	CommitDeed       // changes were committed
	DropDeed         // changes were dropped
	DiscardDeed      // all that was left was discarded
)

var deedNames = [...]string{NoDeed: "nothing", CommitDeed: "commit", DropDeed: "drop", DiscardDeed: "discard"}

// String returns "nothing", "commit", "drop" or "discard".
func (d Deed) String() string {
	if int(d) >= len(deedNames) {
		return "deed(" + strconv.Itoa(int(d)) + ")"
	}
	return deedNames[d]
}

// lastDeed is what Undo takes back.
func lastDeed(m *store.Meta) Deed {
	n := len(m.Dropped)
	drop := n > 0 && m.Dropped[n-1].After == m.LastTx() && (m.State != store.Discarded || m.Thrown)
	switch {
	case m.State == store.Discarded && m.Thrown && !(drop && m.Dropped[n-1].Ended):
		return DiscardDeed
	case drop:
		return DropDeed
	case len(m.Done) > 0:
		return CommitDeed
	}
	return NoDeed
}

// decided is when something was done about the changes last. Zero: it cannot be told.
func (s *Session) decided() time.Time {
	if s.dir == nil {
		return time.Time{}
	}
	st, found, err := s.dir.LstatIf(store.MetaName)
	if err != nil || !found {
		return time.Time{}
	}
	return time.Unix(st.Mtime.Unix())
}

// Discard throws the session's changes away. Undo makes it Kept again until it is removed (see
// Clean), since all that it holds stays where it is: only what a command wrote that was not
// collected is lost, and on a full disk everything. Erase gives the space back.
func (s *Session) Discard() error { return s.end(false) }

// Erase throws the session's changes away for good. Its data stays, for List; see Remove.
// Calling it for a session that was discarded gives the space back.
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
		err := s.setMeta(&m, nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return &Error{Op: op, Path: s.path, Err: err}
		}
		// What fills the disk may be what is to be thrown away.
	}
	if err := s.discard(); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	return nil
}

// undiscard takes a discard back.
func (s *Session) undiscard() error {
	m := *s.meta
	m.State, m.Thrown = store.Kept, false
	return s.revive(&m)
}

// undrop takes the last drop back.
func (s *Session) undrop() error {
	m := *s.meta
	m.State, m.Thrown = store.Kept, false
	last := m.Dropped[len(m.Dropped)-1]
	m.Dropped = slices.Clone(m.Dropped[:len(m.Dropped)-1])
	var l tx.Ledger
	l.Load(&m)
	for _, p := range last.Paths {
		at := store.Place{Root: p.Now.Root, Path: string(p.Now.Path)}
		now, ok := l.At[at]
		switch {
		case ok && now.Lower != p.Now.Lower:
			// A commit that was taken back touched the project's object since.
			l.Set(at, store.Settled{Lower: now.Lower})
		case p.Was == nil:
			delete(l.At, at)
		default:
			l.Set(at, *p.Was)
		}
	}
	l.Save(&m)
	return s.revive(&m)
}

// revive makes the session Kept as m says, if what it was begun on is there.
func (s *Session) revive(m *store.Meta) error {
	list, err := store.Bases(s.state, "", m)
	store.CloseBases(list)
	if err == nil && s.stored() {
		_, packed, perr := s.dir.LstatIf(tree.PackedName)
		_, copied, cerr := s.dir.LstatIf(copiedName)
		if err = errors.Join(perr, cerr); err == nil && !packed && !copied {
			err = s.lost()
		}
	}
	if err == nil {
		err = s.setMeta(m, new(tree.Flusher))
	}
	if err != nil {
		return &Error{Op: "undo", Path: s.path, Err: err}
	}
	return nil
}

// undo takes back what was done last, unless that was a commit; ok says that it was not.
func (s *Session) undo(ctx context.Context) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	switch lastDeed(s.meta) {
	case NoDeed:
		return true, &Error{Op: "undo", Path: s.path, Err: ErrNoCommit}
	case DiscardDeed:
		return true, s.undiscard()
	case DropDeed:
		return true, s.undrop()
	}
	return false, nil
}
