//go:build linux

package tree

import (
	"maps"

	"golang.org/x/sys/unix"
)

func accessParts(a, b Stat) Parts {
	return Parts{Mode: a.Perm() != b.Perm(), Owner: a.UID != b.UID || a.GID != b.GID}
}

// sameXattrs compares the attributes of two directories or files.
func sameXattrs(a, b interface{ Xattrs() (Xattrs, error) }) (bool, error) {
	x, err := a.Xattrs()
	if err != nil {
		return false, err
	}
	y, err := b.Xattrs()
	if err != nil {
		return false, err
	}
	return maps.Equal(x, y), nil
}

// SameContent reports whether the objects that two directories have at a name differ at most in their time, mode and
// owner. Of directories it compares only the extended attributes.
func SameContent(up, low Dir, name string, a, b Stat) (bool, error) {
	if a.Typ() != b.Typ() {
		return false, nil
	}
	n := Diff{Up: a, Low: b}
	if !a.IsDir() {
		err := new(Walk).compare(&frame{up: up, low: low}, name, &n)
		return !n.Parts.Content && !n.Parts.Attributes, err
	}
	x, err := up.Dir(name, a)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := low.Dir(name, b)
	if err != nil {
		return false, err
	}
	defer y.Close()
	return sameXattrs(x, y)
}

// compare compares two objects of the same type that are no directories.
func (w *Walk) compare(f *frame, name string, n *Diff) error {
	n.Parts = accessParts(n.Up, n.Low)
	switch n.Up.Typ() {
	case unix.S_IFREG:
		return w.compareFiles(f, name, n)
	case unix.S_IFLNK:
		if n.Up.Size != n.Low.Size {
			n.Parts.Content = true
			return nil
		}
		a, err := f.up.Link(name, n.Up)
		if err != nil {
			return err
		}
		b, err := f.low.Link(name, n.Low)
		if a != b {
			n.Parts.Content = true
		}
		return err
	default:
		if n.Up.Rdev != n.Low.Rdev {
			n.Parts.Content = true
		}
		up, low, err := f.traits(name, n)
		if err != nil {
			return err
		}
		if !maps.Equal(up.Lists, low.Lists) {
			n.Parts.Attributes = true
		}
	}
	return nil
}

// traits are those of both sides.
func (f *frame) traits(name string, n *Diff) (up, low Traits, err error) {
	if up, err = f.up.Traits(name, n.Up); err == nil {
		n.note(up)
		low, err = f.low.Traits(name, n.Low)
	}
	return up, low, err
}

func (w *Walk) compareFiles(f *frame, name string, n *Diff) error {
	up, low, err := f.traits(name, n)
	if err != nil {
		return err
	}
	if up.Project != low.Project || up.Capable && !low.Capable {
		n.Parts.Attributes = true
	}
	values := up.Project && low.Project
	if n.Up.Size != n.Low.Size {
		n.Parts.Content = true
		if !values {
			return nil
		}
	} else if n.Up.Size == 0 && !values {
		return nil
	}
	a, err := f.up.File(name, n.Up)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := f.low.File(name, n.Low)
	if err == unix.EACCES {
		n.Parts.Content = true // it cannot be read, so it counts as different
		return nil
	}
	if err != nil {
		return err
	}
	defer b.Close()
	if values {
		same, err := sameXattrs(a, b)
		if err != nil {
			return err
		}
		if !same {
			n.Parts.Attributes = true
		}
	}
	if n.Up.Size != n.Low.Size {
		return nil
	}
	same, err := SameData(a.Handle, b.Handle, n.Up.Size)
	// An overlay that copies a file makes no holes: the command did.
	if !same || n.Up.Blocks < n.Low.Blocks && dataIn(a.Handle, n.Up.Size) < dataIn(b.Handle, n.Up.Size) {
		n.Parts.Content = true
	}
	return err
}
