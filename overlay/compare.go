//go:build linux

package overlay

import (
	"maps"

	"golang.org/x/sys/unix"
)

// accessParts compares who may do what.
func accessParts(a, b stat) parts {
	return parts{mode: a.perm() != b.perm(), owner: a.uid != b.uid || a.gid != b.gid}
}

// sameXattrs compares the attributes of two directories or files.
func sameXattrs(a, b interface{ xattrs() (xattrs, error) }) (bool, error) {
	x, err := a.xattrs()
	if err != nil {
		return false, err
	}
	y, err := b.xattrs()
	if err != nil {
		return false, err
	}
	return maps.Equal(x, y), nil
}

// compare finds out what differs about two objects of one type, neither of them a
// directory.
func (w *walker) compare(f *frame, name string, n *diff) error {
	n.parts = accessParts(n.up, n.low)
	switch n.up.typ() {
	case unix.S_IFREG:
		return w.compareFiles(f, name, n)
	case unix.S_IFLNK:
		if n.up.size != n.low.size {
			n.parts.content = true
			return nil
		}
		a, err := f.up.link(name, n.up)
		if err != nil {
			return err
		}
		b, err := f.low.link(name, n.low)
		if a != b {
			n.parts.content = true
		}
		return err
	default:
		if n.up.rdev != n.low.rdev {
			n.parts.content = true
		}
		up, err := f.up.traits(name, n.up)
		if err != nil {
			return err
		}
		n.note(up)
		low, err := f.low.traits(name, n.low)
		if err != nil {
			return err
		}
		if !maps.Equal(up.lists, low.lists) {
			n.parts.attributes = true
		}
	}
	return nil
}

// compareFiles is compare for regular files.
func (w *walker) compareFiles(f *frame, name string, n *diff) error {
	up, err := f.up.traits(name, n.up)
	if err != nil {
		return err
	}
	n.note(up)
	low, err := f.low.traits(name, n.low)
	if err != nil {
		return err
	}
	if up.project != low.project || up.capable && !low.capable {
		n.parts.attributes = true
	}
	values := up.project && low.project
	if n.up.size != n.low.size {
		n.parts.content = true
		if !values {
			return nil
		}
	} else if n.up.size == 0 && !values {
		return nil
	}
	a, err := f.up.file(name, n.up)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := f.low.file(name, n.low)
	if err == unix.EACCES {
		n.parts.content = true // what cannot be read cannot be called equal
		return nil
	}
	if err != nil {
		return err
	}
	defer b.close()
	if values {
		same, err := sameXattrs(a, b)
		if err != nil {
			return err
		}
		if !same {
			n.parts.attributes = true
		}
	}
	if n.up.size != n.low.size {
		return nil
	}
	same, err := sameData(a.handle, b.handle, n.up.size)
	if !same {
		n.parts.content = true
	}
	return err
}
