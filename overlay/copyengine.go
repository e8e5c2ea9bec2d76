//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Where no overlay can be mounted the command works on a copy of the project. Of each
// object is recorded what the project had and what the copy was like when it was made:
// what has another inode or ctime afterwards was touched, what is missing was deleted.
// What is found makes the same packed form as an upper directory, so that the project is
// compared with it afterwards as always.
//
// Of a file with several names each one is copied by itself, so that a write changes one
// of them, as it does in an overlay.

// A copyRecord is what is known of the copy of a root: two trees of the same shape.
type copyRecord struct {
	low *packedNode // what the project had
	own *packedNode // the copy
}

// A projectCopier makes the copy of one root.
type projectCopier struct {
	ctx  context.Context
	from tree
}

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
	if err := unix.Mkdirat(s.area().fd, upperName(i), 0o700); err != nil {
		return err
	}
	top, err := s.area().openDir(upperName(i))
	if err != nil {
		return err
	}
	defer top.close()
	c := projectCopier{ctx: ctx, from: from}
	rec := copyRecord{&packedNode{name: "."}, &packedNode{name: "."}}
	d, err := from.top()
	if err != nil {
		return err
	}
	rec.low.st, err = d.stat()
	d.close()
	if err != nil {
		return err
	}
	if err := c.directory(".", top, rec); err != nil {
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
	f := os.NewFile(uintptr(h.fd), copiedName)
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
	f := os.NewFile(uintptr(h.fd), copiedName)
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

// directory copies what is in the directory path to d, and finishes that.
func (c *projectCopier) directory(path string, d *handle, rec copyRecord) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	x, err := c.list(path, d, rec)
	if err != nil {
		if e := new(Error); !errors.As(err, &e) {
			err = &Error{Op: "copy", Path: path, Err: err}
		}
		return err
	}
	for i, low := range rec.low.children {
		if !low.st.isDir() {
			continue
		}
		sub, err := d.openDir(low.name)
		if err != nil {
			return err
		}
		err = c.directory(joinPath(path, low.name), sub, copyRecord{low, rec.own.children[i]})
		sub.close()
		if err != nil {
			return err
		}
	}
	rec.low.seal()
	rec.own.seal()
	if err := d.setXattrs(x); err != nil && err != unix.EOPNOTSUPP {
		return err
	}
	if err := finishOwn(d, rec.low.st); err != nil {
		return err
	}
	rec.own.st, err = d.stat()
	return err
}

// list copies what is no directory, and makes those that are one. It returns the
// directory's own attributes.
func (c *projectCopier) list(path string, d *handle, rec copyRecord) (xattrs, error) {
	from, err := c.from.at(path)
	if err != nil {
		return nil, err
	}
	defer from.close()
	x, err := from.xattrs()
	if err != nil {
		return nil, err
	}
	names, err := from.names()
	if err == unix.EACCES {
		return x, nil // the command could not list it either
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		st, ok, err := from.lstat(name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		low, own := &packedNode{name: name, st: st}, &packedNode{name: name}
		made, err := c.object(from, name, d, low, own)
		if err == unix.ENOENT {
			continue // it went away
		}
		if err != nil {
			return nil, &Error{Op: "copy", Path: joinPath(path, name), Err: err}
		}
		if made {
			rec.low.children = append(rec.low.children, low)
			rec.own.children = append(rec.own.children, own)
		}
	}
	return x, nil
}

// object copies one object; a directory is only made. What we may not make is left out,
// and no change later.
func (c *projectCopier) object(from dir, name string, d *handle, low, own *packedNode) (made bool, err error) {
	st := low.st
	var lists xattrs
	switch typ := st.typ(); typ {
	case unix.S_IFDIR:
		return true, unix.Mkdirat(d.fd, name, 0o700)
	case unix.S_IFREG:
		if err := c.file(from, name, d, st); err != nil {
			return false, err
		}
		own.st, err = d.lstat(name)
		return true, err
	case unix.S_IFLNK:
		text, err := from.link(name, st)
		low.link, own.link = text, text
		if err == nil {
			err = unix.Symlinkat(text, d.fd, name)
		}
		if err != nil {
			return false, err
		}
	default:
		t, err := from.traits(name, st)
		if err != nil {
			return false, err
		}
		lists = t.lists
		err = unix.Mknodat(d.fd, name, typ|0o600, int(st.rdev))
		if err == unix.EPERM || err == unix.EACCES {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	own.st, err = finishing.finishNode(d, name, st, lists)
	return true, err
}

// file copies a regular file. One that cannot be read has no content, but cannot be read
// in the copy either.
func (c *projectCopier) file(from dir, name string, d *handle, st stat) error {
	f, err := from.file(name, st)
	closed := err == unix.EACCES
	if err != nil && !closed {
		return err
	}
	to, err := d.create(name)
	if err != nil {
		if !closed {
			f.close()
		}
		return err
	}
	defer to.close()
	if !closed {
		defer f.close()
		if err := copyData(c.ctx, to, f.handle, st); err != nil {
			return err
		}
		x, err := f.xattrs()
		if err != nil && err != errLayer { // no overlay is mounted, no mark means anything
			return err
		}
		if err := to.setXattrs(x); err != nil && err != unix.EOPNOTSUPP {
			return err
		}
		if err := f.unchanged(); err != nil {
			return err
		}
	} else {
		st.mode = st.typ() | st.perm()&^0o777
	}
	return finishOwn(to, st)
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
	t := &realTree{h: h, unlock: true}
	defer t.close()
	rec := s.copies[i]
	n := &packedNode{name: "."}
	if n.st, err = h.stat(); err != nil {
		return nil, err
	}
	err = p.compared(t, ".", n, rec)
	return n, err
}

// compared fills n, a directory that the copy had from the beginning, with what was
// changed in it.
func (p *packer) compared(t tree, path string, n *packedNode, rec copyRecord) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	var subs []*packedNode
	err := func() error {
		d, err := t.at(path)
		if err != nil {
			return err
		}
		defer d.close()
		if n.xattrs, err = d.xattrs(); err != nil && err != errLayer { // as above
			return err
		}
		names, err := d.names()
		if err != nil {
			return err
		}
		slices.Sort(names)
		there := make(map[string]bool, len(names))
		for _, name := range names {
			st, ok, err := d.lstat(name)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			there[name] = true
			c := &packedNode{name: name, st: st}
			own, low := rec.own.child(name), rec.low.child(name)
			kept := own != nil && own.st.ino == st.ino && own.st.typ() == st.typ()
			switch {
			case st.isDir():
				c.opaque = !kept && low != nil && low.st.isDir()
				subs = append(subs, c)
				continue
			case kept && own.st.ctime == st.ctime:
				continue
			}
			if err := p.object(d, c); err != nil {
				return &Error{Op: "store", Path: joinPath(path, name), Err: err}
			}
			if kept {
				c.st = asLow(c.st, own.st, low.st)
			}
			n.children = append(n.children, c)
		}
		for _, own := range rec.own.children {
			if !there[own.name] {
				n.children = append(n.children, &packedNode{name: own.name, st: stat{mode: unix.S_IFCHR, dev: packedDev}})
			}
		}
		return nil
	}()
	if err != nil {
		if e := new(Error); errors.As(err, &e) {
			return err
		}
		return &Error{Op: "compare", Path: path, Err: err}
	}
	for _, c := range subs {
		own, low := rec.own.child(c.name), rec.low.child(c.name)
		if own == nil || own.st.ino != c.st.ino || !own.st.isDir() {
			opaque := c.opaque
			if err := p.below(t, joinPath(path, c.name), c); err != nil {
				return err
			}
			c.opaque = opaque
			n.children = append(n.children, c)
			continue
		}
		if err := p.compared(t, joinPath(path, c.name), c, copyRecord{low, own}); err != nil {
			return err
		}
		if len(c.children) > 0 || c.st.ctime != own.st.ctime {
			c.st = asLow(c.st, own.st, low.st)
			n.children = append(n.children, c)
		}
	}
	slices.SortFunc(n.children, func(a, b *packedNode) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	n.seal()
	return nil
}

// asLow takes what the command left as it was from what the project had: the copy could
// not be given everything.
func asLow(st, own, low stat) stat {
	if st.uid == own.uid {
		st.uid = low.uid
	}
	if st.gid == own.gid {
		st.gid = low.gid
	}
	if st.perm() == own.perm() {
		st.mode = st.typ() | low.perm()
	}
	if st.mtime == own.mtime {
		st.mtime = low.mtime
	}
	return st
}
