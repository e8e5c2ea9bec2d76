//go:build linux

package overlay

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// A packed side of a root is what the session wrote, stored so that any file system can
// hold it: an index of all objects (see index.go), and the content of regular files in
// files with numbers. Nobody changes it.

const (
	packedName  = "packed"       // the directory, in the session's
	packingOf   = ".packed.new"  // the same while it is written
	packedIndex = "index"        // in it
	shardSize   = 4096           // files in one directory: some file systems take few
	packedDev   = ^uint64(0) - 1 // the device of all that is packed
)

// A packedNode is one object.
type packedNode struct {
	name   string
	st     stat
	xattrs xattrs // the project's, and the one with capabilities
	link   string // the text of a symbolic link
	data   int    // the number of a regular file's content
	opaque bool
	origin bool // copied up from the project

	children []*packedNode // by name
	byName   map[string]*packedNode
}

// child returns the object name in a directory, nil for none.
func (n *packedNode) child(name string) *packedNode { return n.byName[name] }

// seal makes the children findable.
func (n *packedNode) seal() {
	n.byName = make(map[string]*packedNode, len(n.children))
	for _, c := range n.children {
		n.byName[c.name] = c
	}
}

// dataName is the path of a file's content in the packed directory.
func dataName(number int) (shard, name string) {
	shard = strconv.Itoa(number / shardSize)
	return shard, shard + "/" + strconv.Itoa(number%shardSize)
}

// A packedTree is a packed side.
type packedTree struct {
	root *packedNode
	h    *handle // the packed directory
}

func (t *packedTree) close()            { t.h.close() }
func (t *packedTree) top() (dir, error) { return &packedDir{t, t.root}, nil }

func (t *packedTree) at(path string) (dir, error) {
	return descend(&packedDir{t, t.root}, path)
}

// A packedDir is a directory of a packedTree.
type packedDir struct {
	t *packedTree
	n *packedNode
}

func (d *packedDir) close()              {}
func (d *packedDir) park()               {}
func (d *packedDir) wake() error         { return nil }
func (d *packedDir) stat() (stat, error) { return d.n.st, nil }

func (d *packedDir) names() ([]string, error) {
	names := make([]string, len(d.n.children))
	for i, c := range d.n.children {
		names[i] = c.name
	}
	return names, nil
}

func (d *packedDir) lstat(name string) (stat, bool, error) {
	c := d.n.child(name)
	if c == nil {
		return stat{}, false, nil
	}
	return c.st, true, nil
}

// get returns the object name if it is want.
func (d *packedDir) get(name string, want stat, typ uint32) (*packedNode, error) {
	c := d.n.child(name)
	if c == nil || !c.st.same(want) || c.st.typ() != typ {
		return nil, errMoved
	}
	return c, nil
}

func (d *packedDir) dir(name string, want stat) (dir, error) {
	c, err := d.get(name, want, unix.S_IFDIR)
	if err != nil {
		return nil, err
	}
	return &packedDir{d.t, c}, nil
}

func (d *packedDir) file(name string, want stat) (*file, error) {
	c, err := d.get(name, want, unix.S_IFREG)
	if err != nil {
		return nil, err
	}
	_, path := dataName(c.data)
	h, err := d.t.h.open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if st, err := h.stat(); err != nil || !st.isReg() || st.size != c.st.size {
		h.close()
		if err == nil {
			err = errors.New("the stored content is damaged")
		}
		return nil, err
	}
	return &file{handle: h, st: c.st, attrs: c.xattrs, copy: true}, nil
}

func (d *packedDir) link(name string, want stat) (string, error) {
	c, err := d.get(name, want, unix.S_IFLNK)
	if err != nil {
		return "", err
	}
	return c.link, nil
}

func (d *packedDir) traits(name string, _ stat) (traits, error) {
	c := d.n.child(name)
	if c == nil {
		return traits{}, unix.ENOENT
	}
	t := traits{origin: c.origin}
	for name := range c.xattrs {
		t.capable = t.capable || name == capabilityXattr
		t.project = t.project || name != capabilityXattr
	}
	if !c.st.isReg() {
		t.lists = c.xattrs
	}
	return t, nil
}

func (d *packedDir) xattrs() (xattrs, error) { return d.n.xattrs, nil }
func (d *packedDir) opaque() (bool, error)   { return d.n.opaque, nil }
func (d *packedDir) origin() (bool, error)   { return d.n.origin, nil }
