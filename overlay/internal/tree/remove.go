//go:build linux

package tree

import (
	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/sys"
)

func RemoveTree(parent *Handle, name string) error { return deep.Remove(int(parent.FD), name) }

func OpenForRemoval(parent *Handle, name string) (*Handle, error) {
	fd, _, err := deep.OpenForRemoval(int(parent.FD), name)
	if err != nil {
		return nil, err
	}
	return &Handle{FD: sys.FD(fd)}, nil
}

func Swapped(err error) bool { return deep.Swapped(err) }
