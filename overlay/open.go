//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/nsrun/nsrun/overlay/internal/store"
)

// Open opens a session of the state directory dir and locks it until Close. If somebody else holds it, the error wraps
// ErrBusy. An empty dir means DefaultDir. The id may be shortened at either end, down to four characters of its random
// part, as long as it is unique; "last" is the newest session.
func Open(dir, id string) (*Session, error) { return open(dir, id, false) }

// OpenReadOnly opens a session like Open, but does not lock it, so that a session in use can be
// read. The errors of Commit, Discard and Remove then wrap ErrReadOnly.
func OpenReadOnly(dir, id string) (*Session, error) { return open(dir, id, true) }

func open(dir, id string, readOnly bool) (_ *Session, err error) {
	statePath, state, err := openStateDir(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Op: opOpen, Path: id, Err: store.ErrNoSession}
	}
	if err != nil {
		return nil, err
	}
	recoverAll(statePath, state, func(Recovered, error) bool { return true })
	s := &Session{state: state, readOnly: readOnly}
	defer func() {
		if err = public(err); err != nil {
			s.release()
		}
	}()
	name, err := store.FindSession(state, id)
	if err != nil {
		return nil, &Error{Op: opOpen, Path: id, Err: err}
	}
	fail := func(err error) (*Session, error) {
		return nil, &Error{Op: opOpen, Path: filepath.Join(statePath, name), Err: err}
	}
	if readOnly {
		if s.dir, err = store.OpenSession(state, name); err != nil {
			return fail(err)
		}
		who, err := store.Locked(s.dir)
		if err = store.OrGone(state, name, s.dir, err); err != nil {
			return fail(err)
		}
		s.busy = who == store.Owner
	} else if s.dir, s.lock, err = store.LockSession(state, name, store.Owner); err != nil {
		return fail(err)
	}
	s.meta, err = store.ReadMeta(s.dir)
	if err = store.OrGone(state, name, s.dir, err); err != nil {
		return fail(err)
	}
	if s.meta.On != "" && s.meta.State == store.Kept {
		if s.below, err = store.Bases(state, statePath, s.meta); err != nil {
			return fail(err)
		}
		store.CloseBases(s.below)
	}
	s.name(name, statePath)
	if !readOnly && s.interrupted() {
		if _, err = s.recover(); err != nil {
			return fail(err)
		}
	}
	if s.meta.State == store.Kept && s.meta.Engine == store.Copy {
		// Where this fails, whoever asks for the changes is told that they are not known.
		if !readOnly {
			_ = s.recollect()
		} else if _, left, err := s.dir.LstatIf(copiedName); err == nil && left && !s.busy {
			if w, err := open(dir, name, false); err == nil {
				_ = w.Close()
			}
			if s.meta, err = store.ReadMeta(s.dir); err != nil {
				return fail(err)
			}
		}
	}
	return s, nil
}
