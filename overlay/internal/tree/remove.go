//go:build linux

package tree

import (
	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/sys"
)

// RemoveTree is deep.Remove.
func RemoveTree(parent *Handle, name string) error { return deep.Remove(int(parent.FD), name) }

// OpenForRemoval is deep.OpenForRemoval.
func OpenForRemoval(parent *Handle, name string) (*Handle, error) {
	fd, _, err := deep.OpenForRemoval(int(parent.FD), name)
	if err != nil {
		return nil, err
	}
	return &Handle{FD: sys.FD(fd)}, nil
}

// Swapped is deep.Swapped.
func Swapped(err error) bool { return deep.Swapped(err) }
