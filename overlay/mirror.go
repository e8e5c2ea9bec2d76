//go:build linux

package overlay

import (
	"context"
	"errors"
	"io/fs"
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

// makeMirror copies what is in from to the empty directory top.
func makeMirror(ctx context.Context, from tree, top *handle) (copyRecord, error) {
	c := projectCopier{ctx: ctx, from: from}
	rec := copyRecord{&packedNode{name: "."}, &packedNode{name: "."}}
	d, err := from.top()
	if err != nil {
		return rec, err
	}
	rec.low.st, err = d.stat()
	d.close()
	if err != nil {
		return rec, err
	}
	return rec, c.directory(".", top, rec)
}

// directory copies what is in the directory path to d, and finishes that.
func (c *projectCopier) directory(path string, d *handle, rec copyRecord) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	x, err := c.list(path, d, rec)
	if err != nil {
		if e := new(fs.PathError); !errors.As(err, &e) {
			err = &fs.PathError{Op: "copy", Path: path, Err: err}
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
			return nil, &fs.PathError{Op: "copy", Path: joinPath(path, name), Err: err}
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
		return true, d.mkdir(name)
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
			err = unix.Symlinkat(text, int(d.FD), name)
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
		err = unix.Mknodat(int(d.FD), name, typ|0o600, int(st.rdev))
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

// mirror finds out what was done to a copy, whose top it closes.
func (p *packer) mirror(top *handle, rec copyRecord) (*packedNode, error) {
	t := &realTree{h: top, unlock: true}
	defer t.close()
	n, err := &packedNode{name: "."}, error(nil)
	if n.st, err = top.stat(); err != nil {
		return nil, err
	}
	return n, p.compared(t, ".", n, rec)
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
				return &fs.PathError{Op: "store", Path: joinPath(path, name), Err: err}
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
		if e := new(fs.PathError); errors.As(err, &e) {
			return err
		}
		return &fs.PathError{Op: "compare", Path: path, Err: err}
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
