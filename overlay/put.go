//go:build linux

package overlay

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// A putter makes real objects of packed ones: an upper directory again, with overlayfs'
// marks, or with merge the change of a directory that is what the session was written
// over.
type putter struct {
	ctx   context.Context
	from  *handle // the packed directory
	top   *handle // where it goes
	merge bool
	links map[uint64]string // the first path of a file with several, by number in the index
}

// directory makes d be as n says, with all that is in it.
func (p *putter) directory(n *packedNode, d *handle, path string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	for _, c := range n.children {
		if err := p.object(c, d, joinPath(path, c.name)); err != nil {
			if e := new(fs.PathError); errors.As(err, &e) {
				return err
			}
			return &fs.PathError{Op: "put back", Path: joinPath(path, c.name), Err: err}
		}
	}
	if n.opaque && !p.merge {
		if err := unix.Fsetxattr(int(d.FD), overlayPrefix+"opaque", []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := d.setXattrs(n.xattrs); err != nil {
		return err
	}
	return finishOwn(d, n.st)
}

// finishOwn sets owner, mode and time. An owner that we cannot give is left.
func finishOwn(h *handle, want stat) error {
	_, err := finishing.finish(h, want)
	return err
}

// object makes one object in the directory d.
func (p *putter) object(n *packedNode, d *handle, path string) error {
	there, found, err := d.lstatIf(n.name)
	if err != nil {
		return err
	}
	stays := found && there.isDir() && n.st.isDir() && !n.opaque
	if found && !stays {
		if err := removeTree(d, n.name); err != nil {
			return err
		}
	}
	switch typ := n.st.typ(); {
	case typ == unix.S_IFDIR:
		if !stays {
			if err := d.mkdir(n.name); err != nil {
				return err
			}
		}
		sub, err := openForRemoval(d, n.name) // which its owner may not be able to open
		if err != nil {
			return err
		}
		defer sub.close()
		return p.directory(n, sub, path)
	case typ == unix.S_IFREG:
		return p.file(n, d, path)
	case typ == unix.S_IFLNK:
		if err := unix.Symlinkat(n.link, int(d.FD), n.name); err != nil {
			return err
		}
	case n.st.isWhiteout() && p.merge:
		return nil
	case n.st.isWhiteout():
		return unix.Mknodat(int(d.FD), n.name, unix.S_IFCHR, 0)
	default:
		if err := unix.Mknodat(int(d.FD), n.name, typ|0o600, int(n.st.rdev)); err != nil {
			return err
		}
	}
	_, err = finishing.finishNode(d, n.name, n.st, n.xattrs)
	return err
}

// finishing is for objects that are made like others, as far as we may.
var finishing = &copier{lax: true, inherit: true}

// file makes a regular file, or a further name of one.
func (p *putter) file(n *packedNode, d *handle, path string) error {
	if first, ok := p.links[n.st.ino]; ok && n.st.nlink > 1 {
		// Where that is not possible (any more), a copy has to do.
		if unix.Linkat(int(p.top.FD), first, int(d.FD), n.name, 0) == nil {
			return nil
		}
	}
	pd := packedDir{t: &packedTree{h: p.from}, n: &packedNode{byName: map[string]*packedNode{n.name: n}}}
	f, err := pd.file(n.name, n.st)
	if err != nil {
		return err
	}
	defer f.close()
	to, err := d.create(n.name)
	if err != nil {
		return err
	}
	defer to.close()
	if err := copyData(p.ctx, to, f.handle, n.st); err != nil {
		return err
	}
	x, err := f.xattrs()
	if err != nil {
		return err
	}
	if err := to.setXattrs(x); err != nil {
		return err
	}
	if err := finishOwn(to, n.st); err != nil {
		return err
	}
	if v, ok := n.xattrs[capabilityXattr]; ok {
		if err := unix.Fsetxattr(int(to.FD), capabilityXattr, []byte(v), 0); err != nil {
			return err
		}
	}
	if n.st.nlink > 1 {
		if p.links == nil {
			p.links = map[uint64]string{}
		}
		p.links[n.st.ino] = path
	}
	return nil
}
