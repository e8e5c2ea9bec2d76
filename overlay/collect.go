//go:build linux

package overlay

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Collect stores what the command has written. Call it when the command has ended, before you use
// the session in another way; until then a session with EngineTmpfs or EngineCopy (see Info.Engine)
// shows no changes. With EngineOverlay, and if it was called already, it does nothing. Nothing below a path that is too
// long to be committed is stored.
func (s *Session) Collect(ctx context.Context) error {
	const op = "store changes"
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return err
	}
	if !s.stored() || !s.armed {
		return nil
	}
	err := counted(ctx, func(ctx context.Context) error { return tree.Pack(ctx, s.dir, len(s.roots), s.packRoot) })
	if err != nil {
		if err = public(err); errors.As(err, new(*Error)) {
			return err
		}
		return &Error{Op: op, Path: s.path, Err: err}
	}
	s.disarm()
	if s.meta.Engine == store.Copy {
		// The copy only takes up space. Its record goes first, or what is missing would be compared as deleted.
		if tree.RemoveTree(s.dir, copiedName) == nil {
			_ = tree.RemoveTree(s.dir, "upper")
		}
	}
	if len(s.renewed) == 0 {
		return nil
	}
	m := *s.meta
	m.Settled = slices.Clone(m.Settled)
	for i, ctime := range s.renewed {
		if i < len(m.Settled) {
			m.Settled[i].Upper = ctime
		}
	}
	s.renewed = nil
	if err := s.setMeta(&m, new(tree.Flusher)); err != nil {
		return &Error{Op: op, Path: s.path, Err: err}
	}
	return nil
}

// packRoot stores the changes of root i.
func (s *Session) packRoot(p *tree.Packer, i int) (*tree.Node, error) {
	if s.meta.Engine == store.Copy {
		return s.compareCopy(p, i)
	}
	h, err := s.mem.Open(store.UpperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	t := &tree.Real{H: h, Upper: true, Unlock: true}
	defer t.Close()
	return p.Tree(t)
}

// recollect stores what a command wrote to copies, after the program that started it was killed. It is not an error if
// there is no such command.
func (s *Session) recollect() error {
	h, err := s.dir.Open(copiedName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	f := h.OSFile(copiedName)
	defer f.Close()
	list, err := tree.ReadIndex(f)
	if err != nil {
		return err
	}
	n := len(s.meta.Roots)
	if len(list) != 2*n {
		return tree.ErrIndex
	}
	s.copies = make([]tree.Record, n)
	for i := range n {
		s.copies[i] = tree.Record{Low: list[i], Own: list[n+i]}
	}
	s.armed = true
	err = s.Collect(context.Background())
	s.armed = false
	return err
}

// compareCopy finds out what the command changed in the copy of root i.
func (s *Session) compareCopy(p *tree.Packer, i int) (*tree.Node, error) {
	if i >= len(s.copies) || s.copies[i].Low == nil {
		return nil, errors.New("the record of what was copied is missing")
	}
	h, err := s.area().Open(store.UpperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	t := &tree.Real{H: h, Unlock: true, Book: s.book.Keeper(true, i), Unbook: s.book.Unnote}
	defer t.Close()
	return p.Mirror(t, s.copies[i])
}

// disarm closes the session's tmpfs: no command's changes are in it any more.
func (s *Session) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	s.closeMem()
}
