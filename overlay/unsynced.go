//go:build linux

package overlay

import (
	"errors"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// The overlays of a session are mounted with the option volatile: neither the first change of an old file nor the
// unmounting waits for the disk. A power failure can then cut off files, even those that a command synced. So a session
// is marked before a command can write to it. Close syncs it, and removes the mark. A commit syncs what it takes, as
// always. If the machine was restarted while the mark was there, nobody knows what is on disk: such a session is not
// committed unless CommitOptions.AllowUnsynced says so.

// beginUnsynced marks the session with mark. If that is impossible, its overlays sync. The caller holds s.work and
// s.mu, unless nobody else has the session yet.
func (s *Session) beginUnsynced(mark func(boot string) error) {
	boot := sys.BootID()
	s.volatile = s.meta.Engine == store.Overlay && boot != "" && mark(boot) == nil
}

func (s *Session) markFirst(boot string) error { return store.MarkFirst(s.dir, boot, s.meta) }
func (s *Session) markAgain(boot string) error { return store.MarkUnsynced(s.dir, boot) }

// checkSynced returns an error if what the session has may not be what was written.
func (s *Session) checkSynced(op string, allow bool) error {
	if _, lost := store.Unsynced(s.dir); lost && !allow {
		return &Error{Op: op, Path: s.path, Err: ErrUnsynced}
	}
	return nil
}

// sync brings the session to disk, and removes the mark. A discarded one keeps the mark, since few of them are needed
// again, and so does a committed one, since the commit synced only the copies that it made. The caller holds s.work and
// s.mu, and the overlays are unmounted.
func (s *Session) sync() error {
	if s.dir == nil || s.lock == nil {
		return nil
	}
	marked, lost := store.Unsynced(s.dir)
	switch kept := s.meta.State == store.Kept; {
	case !marked, s.meta.State == store.Discarded:
		return nil
	case kept && lost: // nobody knows what is missing
		return nil
	case !kept && !lost: // if it was lost, somebody said at the commit that nothing is missing
		return nil
	}
	if err := s.syncRest(); err != nil {
		return &Error{Op: "sync session", Path: s.path, Err: err}
	}
	return nil
}

// syncRest brings what is in the session to disk, and then the removal of the mark. If that was not on disk, the next
// commit after a power failure would be refused.
func (s *Session) syncRest() error {
	err := tree.InTurn(func() error { return tree.SyncTree(s.dir) }, func() error { return store.UnmarkSynced(s.dir) })
	if err != nil {
		return err
	}
	var names tree.Flusher
	defer names.Close()
	err = tree.InTurn(func() error { return names.AddDir(s.dir, ".") }, func() error { return names.AddDir(s.state, ".") }, names.Wait)
	if err != nil {
		return errors.Join(err, s.markAgain(sys.BootID()))
	}
	return nil
}

// clearWork removes what the kernel left in the work directories. A volatile overlay leaves a mark there that prevents
// the next mount. They also have mode 0, so that rm(1) fails.
func (s *Session) clearWork() error {
	for i := range s.roots {
		if err := tree.RemoveTree(s.dir, store.WorkName(i)+"/work"); err != nil {
			return err
		}
	}
	return nil
}
