//go:build linux

package tree

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// A packed side of a root is what the session wrote, in a form that any file system can hold: an index of all objects
// (see index.go), and the content of regular files in numbered files. It never changes.

const (
	PackedName  = "packed"       // the directory, in the session's
	PackingName = ".packed.new"  // the same while it is written
	PackedOld   = ".packed.old"  // the one before, until the new one has its name
	packedIndex = "index"        // in it
	shardSize   = 4096           // files in one directory: some file systems take few
	packedDev   = ^uint64(0) - 1 // the device of all packed objects
)

// A Node is one object.
type Node struct {
	Name   string
	Stat   Stat
	Xattrs Xattrs // those that belong to the project, and capabilities
	Link   string // the text of a symbolic link
	Data   int    // the number of a regular file's content
	Opaque bool
	Origin bool // copied up from the project

	Children []*Node // by name
	byName   map[string]*Node
}

// Child returns the object name in a directory, nil for none.
func (n *Node) Child(name string) *Node { return n.byName[name] }

func (n *Node) seal() {
	n.byName = make(map[string]*Node, len(n.Children))
	for _, c := range n.Children {
		n.byName[c.Name] = c
	}
}

// dataName is the path of a file's content in the packed directory.
func dataName(number int) (shard, name string) {
	shard = strconv.Itoa(number / shardSize)
	return shard, shard + "/" + strconv.Itoa(number%shardSize)
}

// A Packed is a packed side.
type Packed struct {
	Root *Node
	H    *Handle // the packed directory
}

func (t *Packed) Close()            { t.H.Close() }
func (t *Packed) Top() (Dir, error) { return &packedDir{t, t.Root}, nil }

func (t *Packed) At(path string) (Dir, error) { return descend(&packedDir{t, t.Root}, path) }

type packedDir struct {
	t *Packed
	n *Node
}

func (d *packedDir) Close()              {}
func (d *packedDir) park()               {}
func (d *packedDir) wake() error         { return nil }
func (d *packedDir) Stat() (Stat, error) { return d.n.Stat, nil }

func (d *packedDir) Names() ([]string, error) {
	names := make([]string, len(d.n.Children))
	for i, c := range d.n.Children {
		names[i] = c.Name
	}
	return names, nil
}

func (d *packedDir) Lstat(name string) (Stat, bool, error) {
	c := d.n.Child(name)
	if c == nil {
		return Stat{}, false, nil
	}
	return c.Stat, true, nil
}

// get returns the object name if it is want.
func (d *packedDir) get(name string, want Stat, typ uint32) (*Node, error) {
	c := d.n.Child(name)
	if c == nil || !c.Stat.Same(want) || c.Stat.Typ() != typ {
		return nil, ErrMoved
	}
	return c, nil
}

func (d *packedDir) Dir(name string, want Stat) (Dir, error) {
	c, err := d.get(name, want, unix.S_IFDIR)
	if err != nil {
		return nil, err
	}
	return &packedDir{d.t, c}, nil
}

func (d *packedDir) File(name string, want Stat) (*File, error) {
	c, err := d.get(name, want, unix.S_IFREG)
	if err != nil {
		return nil, err
	}
	_, path := dataName(c.Data)
	h, err := d.t.H.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if st, err := h.Stat(); err != nil || !st.IsReg() || st.Size != c.Stat.Size {
		h.Close()
		if err == nil {
			err = errors.New("the stored content is damaged")
		}
		return nil, err
	}
	return &File{Handle: h, st: c.Stat, attrs: c.Xattrs, copy: true}, nil
}

func (d *packedDir) Link(name string, want Stat) (string, error) {
	c, err := d.get(name, want, unix.S_IFLNK)
	if err != nil {
		return "", err
	}
	return c.Link, nil
}

func (d *packedDir) Traits(name string, _ Stat) (Traits, error) {
	c := d.n.Child(name)
	if c == nil {
		return Traits{}, unix.ENOENT
	}
	t := Traits{Origin: c.Origin}
	for name := range c.Xattrs {
		t.Capable = t.Capable || name == CapabilityXattr
		t.Project = t.Project || name != CapabilityXattr
	}
	if !c.Stat.IsReg() {
		t.Lists = c.Xattrs
	}
	return t, nil
}

func (d *packedDir) Xattrs() (Xattrs, error) { return d.n.Xattrs, nil }
func (d *packedDir) opaque() (bool, error)   { return d.n.Opaque, nil }
func (d *packedDir) Origin() (bool, error)   { return d.n.Origin, nil }
