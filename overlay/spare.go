//go:build linux

package overlay

import (
	"context"
	"slices"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A Spare is the rest of a retired session. If nothing was written to it, the next session over the
// same roots can use its directories: making and removing them takes about as long as a short
// command. It is not listed as a session. It is locked, and if its holder dies, Clean removes it.
type Spare struct {
	state, dir, lock *tree.Handle
	name             string // in the state directory
	path             string
	meta             *store.Meta
	scratch          int // how many pairs of scratch directories it has
	unmounted        unmount
	ready            bool
}

// Retire discards and closes the session, like Remove, but leaves the slow part to Spare.Ready or Spare.Remove.
func (s *Session) Retire() (*Spare, error) {
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.away()
	if err != nil {
		return nil, err
	}
	sp := &Spare{state: s.state, dir: s.dir, lock: s.lock, name: name, path: s.path, meta: s.meta, unmounted: s.unmounted}
	s.state, s.dir, s.lock, s.unmounted = nil, nil, nil, nil
	s.release()
	return sp, nil
}

// Ready reports whether the next session can use it: the session was a plain one, and nothing at all was written to it.
func (sp *Spare) Ready() bool {
	_ = sp.unmounted.await(context.Background())
	m := sp.meta
	if sp.ready || m.Engine != store.Overlay || m.On != "" || m.State != store.Kept || len(m.Done)+len(m.Settled)+len(m.Files) > 0 {
		return sp.ready
	}
	names, err := sp.dir.Names()
	if err != nil || slices.ContainsFunc(names, func(n string) bool {
		return n != store.LockName && n != store.MetaName && n != store.UnsyncedName && n != "upper" && n != "work" && n != store.ScratchName
	}) {
		return false // transactions and the like
	}
	for i := range m.Roots {
		if !sp.untouched(i) || tree.RemoveTree(sp.dir, store.WorkName(i)+"/work") != nil {
			return false
		}
	}
	if slices.Contains(names, store.ScratchName) {
		if sp.scratch, err = store.ClearScratch(sp.dir); err != nil {
			return false
		}
	}
	sp.ready = true
	return true
}

// untouched reports whether the upper directory of root i is as it was made, except for what makeUpper will set and
// what overlayfs records at a mount.
func (sp *Spare) untouched(i int) bool {
	up, err := sp.dir.OpenDir(store.UpperName(i))
	if err != nil {
		return false
	}
	defer up.Close()
	names, err := up.Names()
	if err != nil || len(names) > 0 {
		return false
	}
	attrs, err := up.XattrNames()
	return err == nil && !slices.ContainsFunc(attrs, func(a string) bool {
		return !tree.WantedXattr(a) && !store.IsMark(a, "origin", "impure", "uuid")
	})
}

// fits reports whether a session over roots can use the Spare: what overlayfs recorded in the upper directories is
// about these roots.
func (sp *Spare) fits(on string, engine Engine, state *tree.Handle, roots []store.Root) bool {
	if on != "" || engine != 0 && engine != EngineOverlay {
		return false
	}
	a, err := sp.state.Stat()
	if err != nil {
		return false
	}
	b, err := state.Stat()
	return err == nil && a.Dev == b.Dev && a.Ino == b.Ino &&
		slices.EqualFunc(sp.meta.Roots, roots, func(x, y store.Root) bool {
			return x.Path == y.Path && x.Ino == y.Ino && x.Disk == y.Disk && x.Disk != 0
		})
}

// Remove removes it. Do not call it after the Spare was given to Create, which then owns it.
func (sp *Spare) Remove() error {
	_ = sp.unmounted.await(context.Background())
	defer sp.state.Close()
	sp.dir.Close()
	sp.lock.Close()
	if err := store.RemoveClosed(sp.state, sp.name); err != nil {
		return &Error{Op: opRemove, Path: sp.path, Err: err}
	}
	return nil
}

// take makes it the directory of a session that is being created, and sets the time of its beginning.
func (sp *Spare) take(s *Session) error {
	s.dir, s.lock, s.scratch, s.reused = sp.dir, sp.lock, sp.scratch, true
	sp.state.Close()
	return s.lock.Chmod(0o600) // which sets its ctime
}
