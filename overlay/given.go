//go:build linux

package overlay

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// given reports whether others can write to an object who could not before, or to what is made in it later. The caller
// and root always can.
func (f *runsFinder) given(n *node) bool {
	owner := n.Up.UID != 0 && int(n.Up.UID) != os.Geteuid()
	const group, others = 0o020, 0o002
	switch perm := n.Up.Perm(); {
	case n.Up.Typ() == unix.S_IFLNK:
		return false
	case n.Kind == Added || n.Kind == TypeChanged:
		return n.Up.IsDir() && (owner || perm&others != 0)
	case n.Kind != Modified:
		return false
	default: // an access control list shows the most that it gives anybody as the group's bits
		return owner && n.Up.UID != n.Low.UID || perm&^n.Low.Perm()&(group|others) != 0 ||
			perm&group != 0 && (n.Up.GID != n.Low.GID || n.Aspects&Attributes != 0) ||
			n.Up.IsDir() && n.Aspects&Attributes != 0 && f.givesNew(filepath.Join(n.Root, n.Path))
	}
}

// givesNew reports whether a directory has a default access control list, which it did not have before, by which others
// can write to what is made in it later.
func (f *runsFinder) givesNew(dir string) bool {
	const name = "system.posix_acl_default"
	var lists [2]string
	for i, v := range [...]any{f.c.Old, f.c.New} {
		v := v.(*runsView)
		d, err := v.open(dir)
		if err == nil && d == nil {
			continue
		}
		if err == nil {
			attributes, err2 := d.Xattrs()
			lists[i], err = attributes[name], err2
		}
		if err != nil {
			v.overlook(dir, err)
			return true
		}
	}
	return lists[0] != lists[1] && letsOthersWrite(lists[1])
}

// letsOthersWrite reports whether an access control list lets anybody but the owner write.
func letsOthersWrite(list string) bool {
	const (
		head, entry    = 4, 8 // the version; tag, permissions, id: include/uapi/linux/posix_acl_xattr.h
		owner, mask    = 1, 0x10
		others, writes = 0x20, 2
	)
	named, limit := uint16(0), uint16(writes)
	for at := head; at+entry <= len(list); at += entry {
		e := []byte(list[at:])
		tag, perm := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:])&writes
		switch tag {
		case owner:
		case mask:
			limit = perm
		case others:
			if perm != 0 {
				return true
			}
		default: // users and groups
			named |= perm
		}
	}
	return named&limit != 0
}
