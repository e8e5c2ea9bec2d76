//go:build linux

package overlay

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// makeCopy makes the copy of root i.
func (s *Session) makeCopy(ctx context.Context, i int) error {
	low, err := s.lower[i].Open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	from, err := s.lowerTree(i, low)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := s.area().Mkdir(store.UpperName(i)); err != nil {
		return err
	}
	top, err := s.area().OpenDir(store.UpperName(i))
	if err != nil {
		return err
	}
	defer top.Close()
	rec, err := tree.MakeMirror(ctx, from, top)
	if err != nil {
		return err
	}
	if s.copies == nil {
		s.copies = make([]tree.Record, len(s.meta.Roots))
	}
	s.copies[i] = rec
	return nil
}

// copiedName is a file of a session: the index of what is known of its copies, first all
// that the project had, then all that the copies were like. It is there as long as the
// copies were not compared.
const copiedName = "copied"

// noteCopies writes down what is known of the copies, so that they can be compared even
// if we are killed. Copies in memory would be gone.
func (s *Session) noteCopies() error {
	if s.mem != nil {
		return nil
	}
	var list []*tree.Node
	for _, r := range s.copies {
		list = append(list, r.Low)
	}
	for _, r := range s.copies {
		list = append(list, r.Own)
	}
	if err := tree.RemoveTree(s.dir, copiedName); err != nil {
		return err
	}
	h, err := s.dir.Create(copiedName)
	if err != nil {
		return err
	}
	f := h.OSFile(copiedName)
	return errors.Join(tree.WriteIndex(f, list), f.Close())
}

// recollect stores what a command wrote to copies when the program that began it was
// killed. That there is nothing of that kind is no error.
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

// compareCopy finds out what the command did to the copy of root i.
func (s *Session) compareCopy(p *tree.Packer, i int) (*tree.Node, error) {
	if i >= len(s.copies) || s.copies[i].Low == nil {
		return nil, errors.New("it is not known any more what the copy was like")
	}
	h, err := s.area().Open(store.UpperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return p.Mirror(h, s.copies[i])
}
