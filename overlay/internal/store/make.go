//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// MakeDir makes a session's directory and its lock, which it takes. made is the name of the
// directory, which the caller removes after an error.
func MakeDir(state *tree.Handle) (made string, dir, lock *tree.Handle, err error) {
	for {
		name := NewPrefix + NewName(time.Now())
		err = state.Mkdir(name)
		if err == nil {
			made = name
			break
		}
		if err != unix.EEXIST && err != unix.EINTR {
			return "", nil, nil, err
		}
	}
	if dir, err = OpenOwned(state, made); err != nil {
		return made, nil, nil, err
	}
	if lock, err = dir.Create(LockName); err != nil {
		return made, dir, nil, err
	}
	return made, dir, lock, takeLock(lock, Owner)
}

// Damaged reports whether err, which ReadMeta returned, says that the data is lost: not
// that it could not be read, and not that a newer program wrote it.
func Damaged(err error) bool {
	var syntax *json.SyntaxError
	return err == unix.ENOENT || err == errCut || errors.As(err, &syntax)
}

// RemoveWhole removes a directory, and closes its lock. It renames a session's directory first, so that nobody
// sees half of it.
func RemoveWhole(state *tree.Handle, name string, lock *tree.Handle) error {
	if name[0] != '.' {
		gone := GonePrefix + name
		if err := state.Rename(name, gone, 0); err != nil && err != unix.ENOENT {
			return err
		}
		name = gone
	}
	lock.Close()
	return RemoveClosed(state, name)
}

// RemoveClosed removes a directory in which this process has no file open. On NFS and FUSE, a removed file that is open
// stays in its directory, under another name. What another process has open is no error: Clean removes the rest later.
func RemoveClosed(state *tree.Handle, name string) error {
	err := tree.RemoveTree(state, name)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}
