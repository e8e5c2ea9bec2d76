//go:build linux

package store

import (
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// OpenState opens the directory of the sessions, see owndir.Open, and returns its path
// without symbolic links. With create, it makes missing directories with mode 0700.
func OpenState(path string, create bool) (real string, h *tree.Handle, err error) {
	fd, real, err := owndir.Open(path, create)
	return real, &tree.Handle{FD: fd}, err
}

// OpenOwned opens a directory that must be the caller's own and writable by nobody else.
func OpenOwned(at *tree.Handle, name string) (*tree.Handle, error) {
	h, err := at.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if err := owndir.Check(h.FD); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}
