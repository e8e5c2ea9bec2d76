//go:build linux

package tree

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// A Putter makes real objects from packed ones: an upper directory with the marks of
// overlayfs. With Merge, it instead applies the changes to a copy of the project.
type Putter struct {
	Ctx   context.Context
	From  *Handle // the packed directory
	Top   *Handle // where it goes
	Merge bool
	links map[uint64]string // the first path of an object with several names, by inode number in the index
}

// Directory makes d as n describes, with everything in it.
func (p *Putter) Directory(n *Node, d *Handle, path string) error {
	if err := p.Ctx.Err(); err != nil {
		return err
	}
	for _, c := range n.Children {
		if err := p.Object(c, d, JoinPath(path, c.Name)); err != nil {
			if e := new(fs.PathError); errors.As(err, &e) {
				return err
			}
			return &fs.PathError{Op: "put back", Path: JoinPath(path, c.Name), Err: err}
		}
	}
	if n.Opaque && !p.Merge {
		if err := unix.Fsetxattr(int(d.FD), OverlayPrefix+"opaque", []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := d.SetXattrs(n.Xattrs); err != nil {
		return err
	}
	return finishOwn(d, n.Stat)
}

// finishOwn sets owner, mode and time. It is no error if the caller cannot set the owner.
func finishOwn(h *Handle, want Stat) error {
	_, err := finishing.Finish(h, want)
	return err
}

// Object makes one object in the directory d.
func (p *Putter) Object(n *Node, d *Handle, path string) error {
	there, found, err := d.LstatIf(n.Name)
	if err != nil {
		return err
	}
	stays := found && there.IsDir() && n.Stat.IsDir() && !n.Opaque
	if found && !stays {
		if err := RemoveTree(d, n.Name); err != nil {
			return err
		}
	}
	switch {
	case n.Stat.IsDir():
		if !stays {
			if err := d.Mkdir(n.Name); err != nil {
				return err
			}
		}
		sub, err := OpenForRemoval(d, n.Name) // which its owner may not be able to open
		if err != nil {
			return err
		}
		defer sub.Close()
		return p.Directory(n, sub, path)
	case n.Stat.IsWhiteout() && p.Merge:
		return nil
	case n.Stat.IsWhiteout():
		if err := unix.Mknodat(int(d.FD), n.Name, unix.S_IFCHR, 0); err != nil {
			return err
		}
		_, err := finishing.finishNode(d, n.Name, n.Stat, n.Xattrs)
		return err
	case n.Stat.Nlink > 1:
		return p.linked(n, d, path)
	}
	return p.single(n, d)
}

// linked makes an object that has several names, or a further name of one.
func (p *Putter) linked(n *Node, d *Handle, path string) error {
	if first, ok := p.links[n.Stat.Ino]; ok && linkat(p.Top, first, d, n.Name) == nil {
		return nil
	}
	// If no link is possible, a copy has to do.
	if err := p.single(n, d); err != nil {
		return err
	}
	if p.links == nil {
		p.links = map[uint64]string{}
	}
	p.links[n.Stat.Ino] = path
	return nil
}

// single makes an object that is no directory and no whiteout.
func (p *Putter) single(n *Node, d *Handle) error {
	var err error
	switch typ := n.Stat.Typ(); typ {
	case unix.S_IFREG:
		return p.file(n, d)
	case unix.S_IFLNK:
		err = unix.Symlinkat(n.Link, int(d.FD), n.Name)
	default:
		err = unix.Mknodat(int(d.FD), n.Name, typ|0o600, int(n.Stat.Rdev))
	}
	if err == nil {
		_, err = finishing.finishNode(d, n.Name, n.Stat, n.Xattrs)
	}
	return err
}

// finishing sets the attributes of objects, as far as the caller may.
var finishing = &Copier{Lax: true, Inherit: true}

// file makes a regular file.
func (p *Putter) file(n *Node, d *Handle) error {
	pd := packedDir{t: &Packed{H: p.From}, n: &Node{byName: map[string]*Node{n.Name: n}}}
	f, err := pd.File(n.Name, n.Stat)
	if err != nil {
		return err
	}
	defer f.Close()
	to, err := d.Create(n.Name)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := copyData(p.Ctx, to, f.Handle, n.Stat); err != nil {
		return err
	}
	x, err := f.Xattrs()
	if err != nil {
		return err
	}
	if err := to.SetXattrs(x); err != nil {
		return err
	}
	if err := finishOwn(to, n.Stat); err != nil {
		return err
	}
	if v, ok := n.Xattrs[CapabilityXattr]; ok {
		if err := unix.Fsetxattr(int(to.FD), CapabilityXattr, []byte(v), 0); err != nil {
			return err
		}
	}
	return nil
}
