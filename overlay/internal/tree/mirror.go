//go:build linux

package tree

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// If no overlay can be mounted, the command works on a copy of the project. For each object
// there is a record of the project's version and of the new copy. Afterwards an object with
// another inode or ctime was changed, and a missing one was deleted. The changes are stored in
// the same packed form as an upper directory, and are then compared with the project as always.
//
// Somebody may write to the project while it is copied. An object that is removed is left out, and one that is replaced
// is copied again. A file that is written to may be copied with parts of both versions; if the command changes it, too,
// that is a conflict, because its ctime is later than that of the session.
//
// Each name of a file with several names is copied separately, so that a write changes only
// one of them, as in an overlay.

// A Record is what is known of the copy of a root: two trees of the same shape.
type Record struct {
	Low *Node // what the project had
	Own *Node // the copy
}

type countKey struct{}

// Counting returns a context with which copies and comparisons call count for each object, before they come to it.
func Counting(ctx context.Context, count func(size int64)) context.Context {
	return context.WithValue(ctx, countKey{}, count)
}

// countObject calls the function of Counting, if there is one.
func countObject(ctx context.Context, st Stat) {
	if count, ok := ctx.Value(countKey{}).(func(int64)); ok {
		size := int64(0)
		if st.Typ() == unix.S_IFREG {
			size = int64(st.Size)
		}
		count(size)
	}
}

// A projectCopier makes the copy of one root.
type projectCopier struct {
	ctx  context.Context
	from Tree
}

var errGone = errors.New("the directory went away")

// MakeMirror copies what is in from to the empty directory top.
func MakeMirror(ctx context.Context, from Tree, top *Handle) (Record, error) {
	c := projectCopier{ctx: ctx, from: from}
	rec := Record{&Node{Name: "."}, &Node{Name: "."}}
	d, err := from.Top()
	if err != nil {
		return rec, err
	}
	rec.Low.Stat, err = d.Stat()
	d.Close()
	if err != nil {
		return rec, err
	}
	return rec, c.Directory(".", top, rec)
}

// Directory copies what is in the directory path to d, and finishes that.
func (c *projectCopier) Directory(path string, d *Handle, rec Record) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if len(path) > MaxPath {
		return &fs.PathError{Op: "copy", Path: path, Err: unix.ENAMETOOLONG}
	}
	x, err := c.list(path, d, rec)
	if path != "." && (err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP) {
		return errGone
	}
	if err != nil {
		if e := new(fs.PathError); !errors.As(err, &e) {
			err = &fs.PathError{Op: "copy", Path: path, Err: err}
		}
		return err
	}
	for i := 0; i < len(rec.Low.Children); i++ {
		low := rec.Low.Children[i]
		if !low.Stat.IsDir() {
			continue
		}
		sub, err := d.OpenDir(low.Name)
		if err != nil {
			return err
		}
		err = c.Directory(JoinPath(path, low.Name), sub, Record{low, rec.Own.Children[i]})
		sub.Close()
		if err == errGone {
			rec.Low.Children, rec.Own.Children = slices.Delete(rec.Low.Children, i, i+1), slices.Delete(rec.Own.Children, i, i+1)
			i--
			err = d.Unlink(low.Name, unix.AT_REMOVEDIR)
		}
		if err != nil {
			return err
		}
	}
	rec.Low.seal()
	rec.Own.seal()
	if err := d.SetXattrs(x); err != nil && err != unix.EOPNOTSUPP {
		return err
	}
	if err := finishOwn(d, rec.Low.Stat); err != nil {
		return err
	}
	rec.Own.Stat, err = d.Stat()
	return err
}

// list copies the files of a directory, and makes the directories in it. It returns the directory's own attributes.
func (c *projectCopier) list(path string, d *Handle, rec Record) (Xattrs, error) {
	from, err := c.from.At(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	x, err := from.Xattrs()
	if err != nil && err != ErrLayer {
		return nil, err
	}
	names, err := from.Names()
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
		const most = 4
		err := ErrMoved
		for tries := 0; err == ErrMoved && tries < most; tries++ {
			err = c.child(from, name, d, rec)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "copy", Path: JoinPath(path, name), Err: err}
		}
	}
	return x, nil
}

// child copies one object of a directory, and records it. ErrMoved: it was replaced meanwhile, and nothing was made.
func (c *projectCopier) child(from Dir, name string, d *Handle, rec Record) error {
	st, ok, err := from.Lstat(name)
	if err != nil || !ok {
		return err
	}
	countObject(c.ctx, st)
	low, own := &Node{Name: name, Stat: st}, &Node{Name: name}
	made, err := c.Object(from, name, d, low, own)
	switch {
	case err == unix.ENOENT:
		return nil // it went away
	case err == ErrMoved:
		if err := d.Unlink(name, 0); err != nil && err != unix.ENOENT {
			return err
		}
	case made && err == nil:
		rec.Low.Children = append(rec.Low.Children, low)
		rec.Own.Children = append(rec.Own.Children, own)
	}
	return err
}

// Object copies one object; of a directory it makes only the directory itself. It leaves out
// what the caller may not make, which is then not a change.
func (c *projectCopier) Object(from Dir, name string, d *Handle, low, own *Node) (made bool, err error) {
	st := low.Stat
	var lists Xattrs
	switch typ := st.Typ(); typ {
	case unix.S_IFDIR:
		return true, d.Mkdir(name)
	case unix.S_IFREG:
		if err := c.File(from, name, d, st); err != nil {
			return false, err
		}
		own.Stat, err = d.Lstat(name)
		return true, err
	case unix.S_IFLNK:
		text, err := from.Link(name, st)
		low.Link, own.Link = text, text
		if err == nil {
			err = unix.Symlinkat(text, int(d.FD), name)
		}
		if err != nil {
			return false, err
		}
	default:
		t, err := from.Traits(name, st)
		if err != nil {
			return false, err
		}
		lists = t.Lists
		err = unix.Mknodat(int(d.FD), name, typ|0o600, int(st.Rdev))
		if err == unix.EPERM || err == unix.EACCES {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	own.Stat, err = finishing.finishNode(d, name, st, lists)
	return true, err
}

// File copies a regular file. The copy of a file that cannot be read is empty, and cannot be read either.
func (c *projectCopier) File(from Dir, name string, d *Handle, st Stat) error {
	f, err := from.File(name, st)
	closed := err == unix.EACCES
	if err != nil && !closed {
		return err
	}
	to, err := d.Create(name)
	if err != nil {
		if !closed {
			f.Close()
		}
		return err
	}
	defer to.Close()
	if !closed {
		defer f.Close()
		if err := copyData(c.ctx, to, f.Handle, st); err != nil {
			return err
		}
		x, err := f.Xattrs()
		if err != nil && err != ErrLayer { // marks have no meaning without an overlay
			return err
		}
		if err := to.SetXattrs(x); err != nil && err != unix.EOPNOTSUPP {
			return err
		}
	} else {
		st.Mode = st.Typ() | st.Perm()&^0o777
	}
	return finishOwn(to, st)
}

// Mirror finds the changes in the copy t.
func (p *Packer) Mirror(t *Real, rec Record) (*Node, error) {
	p.copy = true
	n, err := &Node{Name: "."}, error(nil)
	if n.Stat, err = t.H.Stat(); err != nil {
		return nil, err
	}
	return n, p.compared(t, ".", n, rec)
}

// compared fills n, a directory that the copy had from the beginning, with its changes.
func (p *Packer) compared(t Tree, path string, n *Node, rec Record) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	subs, err := p.changedIn(t, path, n, rec)
	if err != nil {
		if e := new(fs.PathError); errors.As(err, &e) {
			return err
		}
		return &fs.PathError{Op: "compare", Path: path, Err: err}
	}
	for _, c := range subs {
		own, low := rec.Own.Child(c.Name), rec.Low.Child(c.Name)
		if own == nil || own.Stat.Ino != c.Stat.Ino || !own.Stat.IsDir() {
			opaque := c.Opaque
			if err := p.below(t, JoinPath(path, c.Name), c); err != nil {
				return err
			}
			c.Opaque = opaque
			n.Children = append(n.Children, c)
			continue
		}
		if err := p.compared(t, JoinPath(path, c.Name), c, Record{low, own}); err != nil {
			return err
		}
		if len(c.Children) > 0 || c.Stat.Ctime != own.Stat.Ctime {
			c.Stat, c.Origin = asLow(c.Stat, own.Stat, low.Stat), true
			n.Children = append(n.Children, c)
		}
	}
	slices.SortFunc(n.Children, func(a, b *Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	n.seal()
	return nil
}

// changedIn adds the changes in the directory path itself to n, and returns the directories in it.
func (p *Packer) changedIn(t Tree, path string, n *Node, rec Record) (subs []*Node, err error) {
	d, err := t.At(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if n.Xattrs, err = d.Xattrs(); p.unmarked(err) != nil {
		return nil, err
	}
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	there := make(map[string]bool, len(names))
	for _, name := range names {
		st, ok, err := d.Lstat(name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		countObject(p.ctx, st)
		there[name] = true
		c := &Node{Name: name, Stat: st}
		own, low := rec.Own.Child(name), rec.Low.Child(name)
		kept := own != nil && own.Stat.Ino == st.Ino && own.Stat.Typ() == st.Typ()
		switch {
		case st.IsDir():
			c.Opaque = !kept && low != nil && low.Stat.IsDir()
			subs = append(subs, c)
			continue
		case kept && own.Stat.Ctime == st.Ctime:
			continue
		}
		if err := p.Object(d, c); err != nil {
			return nil, &fs.PathError{Op: "store", Path: JoinPath(path, name), Err: err}
		}
		if kept {
			c.Stat = asLow(c.Stat, own.Stat, low.Stat)
		}
		n.Children = append(n.Children, c)
	}
	for _, own := range rec.Own.Children {
		if !there[own.Name] {
			n.Children = append(n.Children, &Node{Name: own.Name, Stat: Stat{Mode: unix.S_IFCHR, Dev: packedDev}})
		}
	}
	return subs, nil
}

// asLow takes the attributes that the command did not change from the project's version,
// because the copy may not have got all of them.
func asLow(st, own, low Stat) Stat {
	if st.UID == own.UID {
		st.UID = low.UID
	}
	if st.GID == own.GID {
		st.GID = low.GID
	}
	if st.Perm() == own.Perm() {
		st.Mode = st.Typ() | low.Perm()
	}
	if st.Mtime == own.Mtime {
		st.Mtime = low.Mtime
	}
	return st
}
