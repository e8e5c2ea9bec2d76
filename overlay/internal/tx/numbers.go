//go:build linux

package tx

import (
	"cmp"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// checkNumbers fails before anything is moved.
func (t *Tx) checkNumbers() error {
	checked := map[*tree.Handle]bool{}
	for _, m := range t.Journal.Moves {
		st := t.Stage(m)
		if st == nil || checked[st] {
			continue
		}
		checked[st] = true
		if err := KeepsNumbers(st); err != nil {
			n := t.Journal.Nodes[m.First]
			return &fs.PathError{Op: "commit to", Path: t.s.Roots[n.Root], Err: err}
		}
	}
	return nil
}

// KeepsNumbers returns an error if what is renamed in a directory gets another number or another time. It is a variable
// for tests.
var KeepsNumbers = func(in *tree.Handle) error {
	typ, err := tree.FSType(in)
	if err != nil || typ != unix.FUSE_SUPER_MAGIC { // on all others it keeps both
		return err
	}
	if err := numberStays(in); err != nil {
		return err
	}
	return timeStays(in)
}

// numberStays tries it with a directory.
func numberStays(in *tree.Handle) error {
	if err := in.Mkdir(trialName); err != nil {
		return err
	}
	was, now, err := renamed(in, unix.AT_REMOVEDIR)
	if err == nil && was.Ino != now.Ino {
		err = tree.ErrNumbers
	}
	return err
}

// timeStays tries it with a file.
func timeStays(in *tree.Handle) error {
	f, err := in.Create(trialName)
	if err != nil {
		return err
	}
	err = f.SetMtime(unix.Timespec{Sec: 1_000_000_000, Nsec: 123_456_700}) // NTFS counts in tenths of microseconds
	f.Close()
	was, now, renameErr := renamed(in, 0)
	if err = cmp.Or(err, renameErr); err == nil && was.Mtime != now.Mtime {
		err = tree.ErrTimes
	}
	return err
}

const trialName = "numbers"

// renamed renames the object trialName, and removes it. It returns what it was before and after that.
func renamed(in *tree.Handle, flags int) (was, now unix.Statx_t, err error) {
	name := trialName
	defer func() { err = cmp.Or(err, in.Unlink(name, flags)) }()
	// The kernel would remember both for a while.
	const fresh = unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_FORCE_SYNC
	if err = sys.Statx(int(in.FD), name, fresh, unix.STATX_BASIC_STATS, &was); err != nil {
		return was, now, err
	}
	const moved = trialName + ".moved"
	if err = in.Rename(name, moved, 0); err != nil {
		return was, now, err
	}
	name = moved
	err = sys.Statx(int(in.FD), name, fresh, unix.STATX_BASIC_STATS, &now)
	return was, now, err
}
