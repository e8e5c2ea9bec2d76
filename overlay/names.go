//go:build linux

package overlay

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// upperName and workName are paths in the session's directory.
func upperName(i int) string { return "upper/overlay" + strconv.Itoa(i+1) }
func workName(i int) string  { return "work/overlay" + strconv.Itoa(i+1) }

// memName is the directory of a session at which the sandbox, and nobody else, sees the
// session's tmpfs.
const memName = "mem"

const (
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

// makeDir makes a session's directory, and its lock, which it takes; made is what there is to
// be removed again.
func makeDir(state *tree.Handle) (made string, dir, lock *tree.Handle, err error) {
	for {
		name := newPrefix + newName(time.Now())
		err = state.Mkdir(name)
		if err == nil {
			made = name
			break
		}
		if err != unix.EEXIST && err != unix.EINTR {
			return "", nil, nil, err
		}
	}
	if dir, err = openOwned(state, made); err != nil {
		return made, nil, nil, err
	}
	if lock, err = dir.Create(lockName); err != nil {
		return made, dir, nil, err
	}
	return made, dir, lock, takeLock(lock, owner)
}

// damaged reports whether err, which readMeta returned, says that the data is gone: not
// that it could not be got at, and not that a newer program wrote it.
func damaged(err error) bool {
	var syntax *json.SyntaxError
	return err == unix.ENOENT || err == errCut || errors.As(err, &syntax)
}

// removeWhole removes a directory. A session's is renamed first, so that nobody sees a
// part of it.
func removeWhole(state *tree.Handle, name string) error {
	if name[0] != '.' {
		gone := gonePrefix + name
		if err := state.Rename(name, gone, 0); err != nil && err != unix.ENOENT {
			return err
		}
		name = gone
	}
	return tree.RemoveTree(state, name)
}
