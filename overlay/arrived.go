//go:build linux

package overlay

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A directory that is moved into the project brings files that are older than the session, because rename(2) changes
// the ctime of the directory only. Another program can move one from elsewhere, and a commit of another session moves
// those that it adds. Their files were not there when the session began, whatever their ctimes are.

// arrivals finds out which directories of the project were moved to their places after the session began.
type arrivals struct {
	touch func(at store.Place, st tree.Stat) bool // whether somebody else changed the directory itself
	sides func(root int) (up, low tree.Tree, err error)
	dirs  map[store.Place]uint64 // inode numbers that were noted when the command had ended
	known map[store.Place]bool

	// failed is the first error that left unknown whether a directory came, and which one, but for those of directories
	// that are gone or that the caller may not look at.
	failed   error
	failedAt store.Place
}

// unknown notes an error about a directory, and returns true.
func (a *arrivals) unknown(at store.Place, err error) bool {
	for _, usual := range [...]error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.ELOOP, tree.ErrMoved} {
		if errors.Is(err, usual) {
			return true
		}
	}
	if a.failed == nil {
		a.failed, a.failedAt = err, at
	}
	return true
}

// above reports whether a directory above the place was moved there after the session began.
func (a *arrivals) above(at store.Place) bool {
	at.Path, _ = tree.SplitPath(at.Path)
	return a.directory(at)
}

// directory reports the same for the directory at a place, or one above.
func (a *arrivals) directory(at store.Place) bool {
	if at.Path == "." {
		return false // the root is compared by itself
	}
	came, ok := a.known[at]
	if !ok {
		came = a.above(at) || a.came(at)
		if a.known == nil {
			a.known = map[store.Place]bool{}
		}
		a.known[at] = came
	}
	return came
}

// came reports whether the directory at a place may be another one than at the beginning of the session. If that is
// unknown, it reports true.
func (a *arrivals) came(at store.Place) bool {
	up, low, err := a.sides(at.Root)
	if err != nil {
		return a.unknown(at, err)
	}
	l, err := low.At(at.Path)
	if err != nil {
		return a.unknown(at, err)
	}
	defer l.Close()
	st, err := l.Stat()
	if err != nil {
		return a.unknown(at, err)
	}
	if !a.touch(at, st) {
		return false
	}
	if ino, ok := a.dirs[at]; ok {
		return ino != st.Ino
	}
	merged, err := copiedUp(up, at.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false // the session deleted or replaced it, and that is the change to look at
	}
	if err != nil {
		return a.unknown(at, err)
	}
	return !merged
}

// copiedUp reports whether the session's directory at a path was copied from the project.
func copiedUp(up tree.Tree, path string) (bool, error) {
	d, err := up.At(path)
	if err != nil {
		return false, err
	}
	defer d.Close()
	return d.Origin()
}
