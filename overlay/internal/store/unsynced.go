//go:build linux

package store

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// UnsyncedName marks a session whose files may not be on disk yet, because a command wrote to it through an overlay
// with the option volatile. It is a symbolic link to the id of the boot in which that was. File systems with a journal
// write it no later than what the overlay made after it, so it needs no fsync(2).
//
// The link of a new session also has the session's data, after a line break: session.json is a file, and can be empty
// after a power failure.
const UnsyncedName = "unsynced"

// MarkUnsynced marks the session in dir. An older mark stays: what it says is still true.
func MarkUnsynced(dir *tree.Handle, boot string) error {
	err := symlink(dir, boot)
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// MarkFirst marks a session that has no name yet. If there is space, the mark contains the session's data, without the
// command if that is too long: xfs takes 1024 bytes, ext4 a block.
func MarkFirst(dir *tree.Handle, boot string, m *Meta) (err error) {
	if err = UnmarkSynced(dir); err != nil { // of the session that had the directory before
		return err
	}
	for _, command := range [][]Text{m.Command, nil} {
		short := *m
		short.Command = command
		if data, err := short.encode(); err == nil {
			if err = symlink(dir, boot+"\n"+string(data)); err != unix.ENAMETOOLONG {
				return err
			}
		}
	}
	return symlink(dir, boot)
}

func symlink(dir *tree.Handle, target string) error {
	return sys.Retry(func() error { return unix.Symlinkat(target, int(dir.FD), UnsyncedName) })
}

func readMark(dir *tree.Handle) (boot, data string, err error) {
	var buf [unix.PathMax]byte
	n := 0
	err = sys.Retry(func() (err error) { n, err = unix.Readlinkat(int(dir.FD), UnsyncedName, buf[:]); return err })
	if err != nil {
		return "", "", err
	}
	boot, data, _ = strings.Cut(string(buf[:n]), "\n")
	return boot, data, nil
}

// Unsynced reports whether the session in dir is marked, and whether the machine was restarted since: then files
// in it may be cut off. If it cannot be told, both are true.
func Unsynced(dir *tree.Handle) (marked, lost bool) {
	is, _, err := readMark(dir)
	if err == unix.ENOENT {
		return false, false
	}
	boot := sys.BootID()
	return true, err != nil || boot == "" || is != boot
}

// firstMeta returns the data in the mark, if m and err, which reading the meta file returned, say that the file is not
// what was written: it is cut off, or has the data of a session that had the directory before.
func firstMeta(dir *tree.Handle, m *Meta, err error) (*Meta, error) {
	if err != nil && !Damaged(err) && !errors.Is(err, errMore) {
		return m, err
	}
	_, data, merr := readMark(dir)
	if merr != nil || data == "" {
		return m, err
	}
	first, derr := DecodeMeta([]byte(data))
	if derr != nil || err == nil && m.Created.Equal(first.Created) {
		return m, err
	}
	return first, nil
}

// UnmarkSynced removes the mark.
func UnmarkSynced(dir *tree.Handle) error {
	err := dir.Unlink(UnsyncedName, 0)
	if err == unix.ENOENT {
		return nil
	}
	return err
}
