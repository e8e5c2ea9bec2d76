//go:build linux

package overlay

import (
	"context"
	"slices"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Drop removes changes from the session without touching the project: whatever is at and below the paths, or matches
// the patterns, is no longer a change, until the session writes there again, or Undo takes the drop back. When no
// change is left, the session is Discarded, or Committed if a part of it was committed.
func (s *Session) Drop(ctx context.Context, paths ...string) error {
	const op = "drop"
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
	}
	if len(paths) == 0 {
		return &Error{Op: op, Path: s.path, Err: ErrNoChange}
	}
	var all []node
	for n, err := range s.nodes(walkOptions{}) {
		if n.Deep != nil {
			err = nil // it goes with a directory above it
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	chosen := make([]bool, len(all))
	for _, p := range paths {
		if err := s.include(all, chosen, p); err != nil {
			return err
		}
	}
	var l tx.Ledger
	l.Load(s.meta)
	d, left := store.Dropped{After: s.meta.LastTx()}, 0
	for i, n := range all {
		if !chosen[i] {
			left++
			continue
		}
		if n.Deep != nil {
			continue
		}
		at := store.Place{Root: n.root, Path: n.Path}
		st := store.Settled{Lower: l.At[at].Lower, Done: true}
		if n.HasUp {
			st.Upper = n.Up.Ctime
		}
		drop := store.DroppedPath{}
		if was, ok := l.At[at]; ok {
			drop.Was = &was
		}
		l.Set(at, st)
		drop.Now = l.At[at]
		d.Paths = append(d.Paths, drop)
	}
	if err := s.checkDependents(); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	m := *s.meta
	l.Save(&m)
	if d.Ended = left == 0; d.Ended {
		m.State = store.Committed
		if len(m.Done) == 0 {
			m.State, m.Thrown = store.Discarded, true
		}
	}
	m.Dropped = append(slices.Clone(m.Dropped), d)
	if err := s.decideMeta(&m, "it was dropped"); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	return nil
}
