//go:build linux

package tree

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A Packer writes a packed session.
type Packer struct {
	ctx   context.Context
	dir   *Handle // the new directory
	files int
	shard string // the newest one
	links map[Inode]*Node
	copy  bool // it reads a copy of the project, where marks of overlays have no meaning
}

// unmarked is err, without ErrLayer where that has no meaning.
func (p *Packer) unmarked(err error) error {
	if p.copy && err == ErrLayer {
		return nil
	}
	return err
}

// Pack stores upper sides, one for each root, in the session directory at. Nobody else may write there.
func Pack(ctx context.Context, at *Handle, roots int, read func(p *Packer, i int) (*Node, error)) (err error) {
	if err := adopt(at); err != nil {
		return err
	}
	if err := RemoveTree(at, PackingName); err != nil {
		return err
	}
	if err := at.Mkdir(PackingName); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = RemoveTree(at, PackingName)
		}
	}()
	p := &Packer{ctx: ctx, links: map[Inode]*Node{}}
	if p.dir, err = at.OpenDir(PackingName); err != nil {
		return err
	}
	defer p.dir.Close()
	list := make([]*Node, roots)
	for i := range list {
		if list[i], err = read(p, i); err != nil {
			return err
		}
	}
	h, err := p.dir.Create(packedIndex)
	if err != nil {
		return err
	}
	f := h.OSFile(packedIndex)
	err = WriteIndex(f, list)
	if err == nil {
		err = sys.Fsync(int(f.Fd()))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// The caller discards what is in memory after this.
	if err := sys.Syncfs(int(p.dir.FD)); err != nil {
		return err
	}
	// The previous one is removed when the new one has its name. See adopt for an interruption.
	if err := RemoveTree(at, PackedOld); err != nil {
		return err
	}
	if err := at.Rename(PackedName, PackedOld, 0); err != nil && err != unix.ENOENT {
		return err
	}
	if err := at.Rename(PackingName, PackedName, 0); err != nil {
		return err
	}
	if err := at.FlushDir("."); err != nil {
		return err
	}
	_ = RemoveTree(at, PackedOld) // the next one does
	return nil
}

// adopt gives complete stored changes their name again, if that was interrupted between the two renames.
func adopt(at *Handle) error {
	if _, found, err := at.LstatIf(PackedName); found || err != nil {
		return err
	}
	for _, name := range interrupted {
		if h, _, err := unpack(at, name); err == nil {
			h.Close()
			return at.Rename(name, PackedName, 0)
		}
	}
	return nil
}

// interrupted are the other names that the stored changes may have, the newest first.
var interrupted = [...]string{PackingName, PackedOld}

// Unpacked reads the index of the packed session in the session directory at, and changes nothing: another process may
// be storing changes there.
func Unpacked(at *Handle) (*Handle, []*Node, error) {
	h, roots, err := unpack(at, PackedName)
	for i := 0; err == unix.ENOENT && i < len(interrupted); i++ {
		if h, roots, err := unpack(at, interrupted[i]); err == nil {
			return h, roots, nil
		}
	}
	return h, roots, err
}

// unpack reads the index of the packed session that has this name.
func unpack(at *Handle, name string) (*Handle, []*Node, error) {
	h, err := at.OpenDir(name)
	if err != nil {
		return nil, nil, err
	}
	i, err := h.Open(packedIndex, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	f := i.OSFile(packedIndex)
	defer f.Close()
	roots, err := ReadIndex(f)
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return h, roots, nil
}

// Tree reads an upper side as it is.
func (p *Packer) Tree(t Tree) (*Node, error) {
	d, err := t.Top()
	if err != nil {
		return nil, err
	}
	st, err := d.Stat()
	d.Close()
	if err != nil {
		return nil, err
	}
	root := &Node{Name: ".", Stat: st}
	return root, p.below(t, ".", root)
}

// below reads what is in the directory n. Nothing below a path that is too long is stored: the path itself is enough
// for a walk to report it.
func (p *Packer) below(t Tree, path string, n *Node) error {
	if len(path) > MaxPath {
		return nil
	}
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
	for _, c := range n.Children {
		if !c.Stat.IsDir() {
			continue
		}
		if err := p.below(t, JoinPath(path, c.Name), c); err != nil {
			return err
		}
	}
	return nil
}

// list reads the directory n itself, and everything in it except the content of directories.
func (p *Packer) list(t Tree, path string, n *Node) error {
	d, err := t.At(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if n.Xattrs, err = d.Xattrs(); p.unmarked(err) != nil {
		return err
	}
	if n.Opaque, err = d.opaque(); err != nil {
		return err
	}
	if n.Origin, err = d.Origin(); err != nil {
		return err
	}
	names, err := d.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		st, ok, err := d.Lstat(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		c := &Node{Name: name, Stat: st}
		if err := p.Object(d, c); err != nil {
			return &fs.PathError{Op: "store", Path: JoinPath(path, name), Err: err}
		}
		n.Children = append(n.Children, c)
	}
	n.seal()
	return nil
}

// Object reads an object in d that is not a directory.
func (p *Packer) Object(d Dir, c *Node) (err error) {
	switch c.Stat.Typ() {
	case unix.S_IFLNK:
		c.Link, err = d.Link(c.Name, c.Stat)
	case unix.S_IFREG:
		id := Inode{c.Stat.Dev, c.Stat.Ino}
		if first, ok := p.links[id]; ok && c.Stat.Nlink > 1 {
			c.Data, c.Xattrs, c.Origin = first.Data, first.Xattrs, first.Origin
			return nil
		}
		if err = p.File(d, c); err == nil && c.Stat.Nlink > 1 {
			p.links[id] = c
		}
	default:
		if c.Stat.IsWhiteout() {
			return nil
		}
		var t Traits
		if t, err = d.Traits(c.Name, c.Stat); err == nil {
			c.Xattrs, c.Origin = t.Lists, t.Origin
		}
	}
	return err
}

// File stores the content and the attributes of a regular file.
func (p *Packer) File(d Dir, c *Node) error {
	t, err := d.Traits(c.Name, c.Stat)
	if p.unmarked(err) != nil {
		return err
	}
	c.Origin = t.Origin && !p.copy
	f, err := d.File(c.Name, c.Stat)
	if err != nil {
		return err
	}
	defer f.Close()
	if t.Project {
		x, err := f.Xattrs()
		if p.unmarked(err) != nil {
			return err
		}
		c.Xattrs = x
	}
	if t.Capable {
		v, ok, err := f.GetXattr(CapabilityXattr)
		if err != nil {
			return err
		}
		if ok {
			if c.Xattrs == nil {
				c.Xattrs = Xattrs{}
			}
			c.Xattrs[CapabilityXattr] = v
		}
	}
	c.Data = p.files
	p.files++
	shard, path := dataName(c.Data)
	if shard != p.shard {
		if err := p.dir.Mkdir(shard); err != nil {
			return err
		}
		p.shard = shard
	}
	to, err := p.dir.Create(path)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := copyData(p.ctx, to, f.Handle, c.Stat); err != nil {
		return err
	}
	return f.Unchanged()
}
