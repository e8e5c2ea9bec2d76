//go:build linux

package overlay

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A node is a Change with what was found on both sides.
type node struct {
	Change
	tree.Diff
	root int

	// unheld says that the project's file system cannot hold the object: it is held back, whatever the caller asks
	// for.
	unheld bool

	// part is the path that lets an automatic commit make the change, besides its own: the change is held back as a
	// part of one there.
	part string

	// merged is the content that a commit writes to a file that both sides changed. Nil: the session's version.
	merged []byte
}

// changeOf turns a difference in the root with this path into a Change.
func changeOf(root string, d *tree.Diff) Change {
	c := Change{Kind: kindOf(d), Root: root, Path: d.At, Below: d.Inside}
	if c.Kind == 0 {
		return c
	}
	st := d.Up
	if c.Kind == Deleted {
		st = d.Low
	}
	c.Mode = st.FileMode()
	if st.IsReg() {
		c.Size = st.Size
		if c.Kind != Deleted {
			c.Links, c.Sparse = st.Nlink, st.Blocks*512 < st.Size
		}
	}
	if d.HasLow {
		c.OldMode = d.Low.FileMode()
		if d.Low.IsReg() {
			c.OldSize = d.Low.Size
		}
	}
	for _, part := range [...]struct {
		differs bool
		is      Aspect
	}{{d.Parts.Content, Content}, {d.Parts.Mode, Mode}, {d.Parts.Owner, Owner}, {d.Parts.Attributes, Attributes}} {
		if part.differs && c.Kind == Modified {
			c.Aspects |= part.is
		}
	}
	if d.HasUp {
		c.Special = special(d.Up)
		switch {
		case c.Special != "":
		case d.Capable:
			c.Special = "has capabilities"
		case c.Kind != Modified:
			c.Special = endless(d.Up)
		}
	}
	return c
}

func kindOf(d *tree.Diff) Kind {
	switch {
	case !d.Changed:
		return 0
	case !d.HasUp:
		return Deleted
	case !d.HasLow:
		return Added
	case d.Up.Typ() != d.Low.Typ():
		return TypeChanged
	}
	return Modified
}

// special says why an object gives its user more rights than a plain file.
func special(st tree.Stat) string {
	switch typ := st.Typ(); {
	case typ == unix.S_IFCHR || typ == unix.S_IFBLK:
		return "is a device node"
	case st.Mode&unix.S_ISUID != 0:
		return "is setuid"
	// On a directory the bit gives no rights: new files get its group.
	case st.Mode&unix.S_ISGID != 0 && typ != unix.S_IFDIR:
		return "is setgid"
	}
	return ""
}

// unheld says why a file system that has only files and directories cannot hold an object.
func unheld(n *node) string {
	if !n.HasUp || n.Up.IsReg() || n.Up.IsDir() {
		return ""
	}
	if n.Up.Typ() == unix.S_IFLNK {
		return "is a symbolic link, which the project's file system cannot hold"
	}
	return "is neither a file nor a directory, and the project's file system holds nothing else"
}

// endless says why a new object is none that programs expect: whoever reads it, as a build or a search reads all files
// of a project, waits for the other end.
func endless(st tree.Stat) string {
	switch st.Typ() {
	case unix.S_IFIFO:
		return "is a FIFO"
	case unix.S_IFSOCK:
		return "is a socket"
	}
	return ""
}
