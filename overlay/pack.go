//go:build linux

package overlay

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A packer writes a packed session.
type packer struct {
	ctx   context.Context
	dir   *handle // of what is written
	files int
	shard string // the last one that was made
	links map[inode]*packedNode
}

// pack stores upper sides, one for each root, in the session directory at.
func pack(ctx context.Context, at *handle, roots int, read func(p *packer, i int) (*packedNode, error)) (err error) {
	if err := adopt(at); err != nil {
		return err
	}
	if err := removeTree(at, packingOf); err != nil {
		return err
	}
	if err := at.mkdir(packingOf); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = removeTree(at, packingOf)
		}
	}()
	p := &packer{ctx: ctx, links: map[inode]*packedNode{}}
	if p.dir, err = at.openDir(packingOf); err != nil {
		return err
	}
	defer p.dir.close()
	list := make([]*packedNode, roots)
	for i := range list {
		if list[i], err = read(p, i); err != nil {
			return err
		}
	}
	h, err := p.dir.create(packedIndex)
	if err != nil {
		return err
	}
	f := h.osFile(packedIndex)
	err = writeIndex(f, list)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// What is in memory is let go of after this.
	if err := sys.Retry(func() error { return unix.Syncfs(int(p.dir.FD)) }); err != nil {
		return err
	}
	// One that is there already is what was put back into memory before.
	switch err := at.rename(packingOf, packedName, unix.RENAME_EXCHANGE); err {
	case nil:
		return inTurn(
			func() error { return at.flushDir(".") },
			func() error { return removeTree(at, packingOf) })
	case unix.ENOENT, unix.EINVAL, unix.ENOSYS:
	default:
		return err
	}
	if err := removeTree(at, packedName); err != nil {
		return err
	}
	if err := at.rename(packingOf, packedName, 0); err != nil {
		return err
	}
	return at.flushDir(".")
}

// adopt finishes what was interrupted between removing old stored changes and giving the
// new ones their name.
func adopt(at *handle) error {
	if _, found, err := at.lstatIf(packedName); found || err != nil {
		return err
	}
	h, err := at.open(packingOf+"/"+packedIndex, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil // there is none, or not all of it
	}
	f := h.osFile(packedIndex)
	_, err = readIndex(f)
	_ = f.Close()
	if err != nil {
		return nil
	}
	return at.rename(packingOf, packedName, 0)
}

// unpacked reads the index of the packed session in the session directory at.
func unpacked(at *handle) (*handle, []*packedNode, error) {
	_ = adopt(at) // on a disk that cannot be written to there is nothing to adopt
	h, err := at.openDir(packedName)
	if err != nil {
		return nil, nil, err
	}
	i, err := h.open(packedIndex, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		h.close()
		return nil, nil, err
	}
	f := i.osFile(packedIndex)
	defer f.Close()
	roots, err := readIndex(f)
	if err != nil {
		h.close()
		return nil, nil, err
	}
	return h, roots, nil
}

// tree reads an upper side as it is.
func (p *packer) tree(t tree) (*packedNode, error) {
	d, err := t.top()
	if err != nil {
		return nil, err
	}
	st, err := d.stat()
	d.close()
	if err != nil {
		return nil, err
	}
	root := &packedNode{name: ".", st: st}
	return root, p.below(t, ".", root)
}

// below reads what is in the directory n.
func (p *packer) below(t tree, path string, n *packedNode) error {
	fail := func(path string, err error) error {
		if e := new(fs.PathError); errors.As(err, &e) {
			return err
		}
		return &fs.PathError{Op: "store", Path: path, Err: err}
	}
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if err := p.list(t, path, n); err != nil {
		return fail(path, err)
	}
	for _, c := range n.children {
		if !c.st.isDir() {
			continue
		}
		if err := p.below(t, joinPath(path, c.name), c); err != nil {
			return err
		}
	}
	return nil
}

// list reads the directory n itself, and all in it that is no directory.
func (p *packer) list(t tree, path string, n *packedNode) error {
	d, err := t.at(path)
	if err != nil {
		return err
	}
	defer d.close()
	if n.xattrs, err = d.xattrs(); err != nil {
		return err
	}
	if n.opaque, err = d.opaque(); err != nil {
		return err
	}
	if n.origin, err = d.origin(); err != nil {
		return err
	}
	names, err := d.names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if len(joinPath(path, name)) > maxPath {
			return &fs.PathError{Op: "store", Path: filepath.Join(path, name), Err: unix.ENAMETOOLONG}
		}
		st, ok, err := d.lstat(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		c := &packedNode{name: name, st: st}
		if err := p.object(d, c); err != nil {
			return &fs.PathError{Op: "store", Path: joinPath(path, name), Err: err}
		}
		n.children = append(n.children, c)
	}
	n.seal()
	return nil
}

// object reads an object in d that is no directory.
func (p *packer) object(d dir, c *packedNode) (err error) {
	switch c.st.typ() {
	case unix.S_IFLNK:
		c.link, err = d.link(c.name, c.st)
	case unix.S_IFREG:
		id := inode{c.st.dev, c.st.ino}
		if first, ok := p.links[id]; ok && c.st.nlink > 1 {
			c.data, c.xattrs, c.origin = first.data, first.xattrs, first.origin
			return nil
		}
		if err = p.file(d, c); err == nil && c.st.nlink > 1 {
			p.links[id] = c
		}
	default:
		if c.st.isWhiteout() {
			return nil
		}
		var t traits
		if t, err = d.traits(c.name, c.st); err == nil {
			c.xattrs, c.origin = t.lists, t.origin
		}
	}
	return err
}

// file stores the content and the attributes of a regular file.
func (p *packer) file(d dir, c *packedNode) error {
	t, err := d.traits(c.name, c.st)
	if err != nil {
		return err
	}
	c.origin = t.origin
	f, err := d.file(c.name, c.st)
	if err != nil {
		return err
	}
	defer f.close()
	if t.project {
		x, err := f.xattrs()
		if err != nil {
			return err
		}
		c.xattrs = x
	}
	if t.capable {
		v, ok, err := f.getXattr(capabilityXattr)
		if err != nil {
			return err
		}
		if ok {
			if c.xattrs == nil {
				c.xattrs = xattrs{}
			}
			c.xattrs[capabilityXattr] = v
		}
	}
	c.data = p.files
	p.files++
	shard, path := dataName(c.data)
	if shard != p.shard {
		if err := p.dir.mkdir(shard); err != nil {
			return err
		}
		p.shard = shard
	}
	to, err := p.dir.create(path)
	if err != nil {
		return err
	}
	defer to.close()
	if err := copyData(p.ctx, to, f.handle, c.st); err != nil {
		return err
	}
	return f.unchanged()
}
