//go:build linux

package overlay

import (
	"github.com/nsrun/nsrun/internal/deep"
	"github.com/nsrun/nsrun/internal/sys"
)

// removeTree is deep.Remove.
func removeTree(parent *handle, name string) error { return deep.Remove(int(parent.FD), name) }

// openForRemoval is deep.OpenForRemoval.
func openForRemoval(parent *handle, name string) (*handle, error) {
	fd, _, err := deep.OpenForRemoval(int(parent.FD), name)
	if err != nil {
		return nil, err
	}
	return &handle{FD: sys.FD(fd)}, nil
}

// swapped is deep.Swapped.
func swapped(err error) bool { return deep.Swapped(err) }
