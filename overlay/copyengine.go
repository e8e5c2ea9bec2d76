//go:build linux

package overlay

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// makeCopy makes the copy of root i.
func (s *Session) makeCopy(ctx context.Context, i int) error {
	low, err := s.lower[i].open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	from, err := s.lowerTree(i, low)
	if err != nil {
		return err
	}
	defer from.close()
	if err := s.area().mkdir(upperName(i)); err != nil {
		return err
	}
	top, err := s.area().openDir(upperName(i))
	if err != nil {
		return err
	}
	defer top.close()
	rec, err := makeMirror(ctx, from, top)
	if err != nil {
		return err
	}
	if s.copies == nil {
		s.copies = make([]copyRecord, len(s.meta.Roots))
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
	var list []*packedNode
	for _, r := range s.copies {
		list = append(list, r.low)
	}
	for _, r := range s.copies {
		list = append(list, r.own)
	}
	if err := removeTree(s.dir, copiedName); err != nil {
		return err
	}
	h, err := s.dir.create(copiedName)
	if err != nil {
		return err
	}
	f := h.osFile(copiedName)
	return errors.Join(writeIndex(f, list), f.Close())
}

// recollect stores what a command wrote to copies when the program that began it was
// killed. That there is nothing of that kind is no error.
func (s *Session) recollect() error {
	h, err := s.dir.open(copiedName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	f := h.osFile(copiedName)
	defer f.Close()
	list, err := readIndex(f)
	if err != nil {
		return err
	}
	n := len(s.meta.Roots)
	if len(list) != 2*n {
		return errIndex
	}
	s.copies = make([]copyRecord, n)
	for i := range n {
		s.copies[i] = copyRecord{list[i], list[n+i]}
	}
	s.armed = true
	err = s.Collect(context.Background())
	s.armed = false
	return err
}

// compareCopy finds out what the command did to the copy of root i.
func (s *Session) compareCopy(p *packer, i int) (*packedNode, error) {
	if i >= len(s.copies) || s.copies[i].low == nil {
		return nil, errors.New("it is not known any more what the copy was like")
	}
	h, err := s.area().open(upperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return p.mirror(h, s.copies[i])
}
