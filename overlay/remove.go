//go:build linux

package overlay

import "github.com/nsrun/nsrun/internal/deep"

// removeTree is deep.Remove.
func removeTree(parent *handle, name string) error { return deep.Remove(parent.fd, name) }

// openForRemoval is deep.OpenForRemoval.
func openForRemoval(parent *handle, name string) (*handle, error) {
	fd, _, err := deep.OpenForRemoval(parent.fd, name)
	if err != nil {
		return nil, err
	}
	return &handle{fd: fd}, nil
}

// swapped is deep.Swapped.
func swapped(err error) bool { return deep.Swapped(err) }
