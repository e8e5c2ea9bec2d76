//go:build linux

package overlay

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// lowerTree returns what is below root i; project is the project's own directory, which then belongs to the tree. The
// caller holds s.mu.
func (s *Session) lowerTree(i int, project *tree.Handle) (tree.Tree, error) {
	low := tree.Tree(&tree.Real{H: project.With(&store.Opener{})})
	if s.meta.On == "" {
		return low, nil
	}
	// Their state may have changed since the session was opened.
	list, err := store.Bases(s.state, filepath.Dir(s.path), s.meta)
	if err != nil {
		low.Close()
		return nil, &Error{Op: opOpen, Path: s.path, Err: err}
	}
	defer store.CloseBases(list)
	t := &tree.Merged{}
	for _, b := range list {
		k, ok := b.Meta.RootOf(s.meta.Roots[i].Path)
		if !ok {
			continue
		}
		h, err := b.Dir.Open(store.UpperName(k), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			t.Close()
			low.Close()
			return nil, &Error{Op: opOpen, Path: filepath.Join(b.Path, store.UpperName(k)), Err: err}
		}
		t.Layers = append(t.Layers, &tree.Real{H: h.With(&store.Opener{}), Upper: true})
	}
	if len(t.Layers) == 0 {
		return low, nil
	}
	t.Layers = append(t.Layers, low)
	return t, nil
}

// baseState returns the session that s is based on, and its state: while it is Kept, s cannot be committed; when it is
// Committed, the project has its changes, and s is compared with the project. An empty id: s is based on none.
func (s *Session) baseState() (id string, state State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.On == "" {
		return "", Kept, nil
	}
	if s.state == nil {
		return "", Kept, fs.ErrClosed
	}
	d, m, err := store.OpenMeta(s.state, s.meta.On)
	d.Close()
	if err == store.ErrGone {
		return s.meta.On, Discarded, fmt.Errorf("it builds on session %s, which is gone: %w", s.meta.On, fs.ErrNotExist)
	}
	if err != nil {
		return s.meta.On, Kept, err
	}
	return s.meta.On, stateOf(m.State), nil
}

// checkBase says why s cannot be committed, if the session that it is based on is the reason.
func (s *Session) checkBase(op string) error {
	id, state, err := s.baseState()
	switch {
	case err != nil:
	case id != "" && state == Kept:
		err = fmt.Errorf("it builds on session %s: %w", id, ErrBaseKept)
	case id != "" && state == Discarded:
		err = fmt.Errorf("it builds on session %s, which was discarded", id)
	default:
		return nil
	}
	return &Error{Op: op, Path: s.path, Err: err}
}

// Dependents lists the sessions that are based on this one and still have changes. While there are
// any, this one cannot be written to or discarded.
func (s *Session) Dependents() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return nil, &Error{Op: "look for sessions on", Path: s.path, Err: fs.ErrClosed}
	}
	list, err := store.Dependents(s.state, s.dir, s.id)
	if err != nil {
		return nil, &Error{Op: "look for sessions on", Path: s.path, Err: err}
	}
	return list, nil
}

// checkDependents refuses changes to a session on which others are based. The caller holds s.work.
func (s *Session) checkDependents() error {
	list, err := store.Dependents(s.state, s.dir, s.id)
	if err != nil || len(list) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", ErrBuiltOn, store.ShortList(list))
}

// standOn bases s on the session that id names: the roots of s must be roots of that one. The returned handle holds
// that session's lock, until s has its name.
func (s *Session) standOn(statePath, id string) (lock *tree.Handle, err error) {
	fail := func(err error) (*tree.Handle, error) {
		lock.Close()
		return nil, &Error{Op: opBuild, Path: id, Err: err}
	}
	name, err := store.FindSession(s.state, id)
	if err != nil {
		return fail(err)
	}
	dir, lock, err := store.LockSession(s.state, name, store.Caretaker)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	s.meta.On = name
	if s.below, err = store.Bases(s.state, statePath, s.meta); err != nil {
		return fail(err)
	}
	defer store.CloseBases(s.below)
	below, err := store.ReadMeta(dir)
	if err != nil {
		return fail(err)
	}
	for _, r := range s.meta.Roots {
		i, ok := below.RootOf(r.Path)
		if !ok {
			return fail(fmt.Errorf("%s is not a root of it", escape.Quote(string(r.Path))))
		}
		if below.Roots[i].Ino != r.Ino {
			return fail(fmt.Errorf("%s is no longer the directory that it was for that session", escape.Quote(string(r.Path))))
		}
	}
	for _, b := range s.below {
		if b.Meta.Engine != store.Overlay {
			return fail(fmt.Errorf("session %s is not stored in a form that can be a layer: commit it first", b.ID))
		}
	}
	f, err := dir.Open(store.StoodName, unix.O_PATH|unix.O_NOFOLLOW)
	if err == unix.ENOENT {
		f, err = dir.Create(store.StoodName)
	}
	if err != nil {
		return fail(err)
	}
	f.Close()
	return lock, nil
}
