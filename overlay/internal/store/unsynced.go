//go:build linux

package store

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// UnsyncedName marks a session whose files may not be on disk yet, because a command wrote to it through an overlay
// with the option volatile. It is a symbolic link to the id of the boot in which that was. File systems with a journal
// write it no later than what the overlay made after it, so it needs no fsync(2).
const UnsyncedName = "unsynced"

// MarkUnsynced marks the session in dir. An older mark stays: what it says is still true.
func MarkUnsynced(dir *tree.Handle, boot string) error {
	err := sys.Retry(func() error { return unix.Symlinkat(boot, int(dir.FD), UnsyncedName) })
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// Unsynced reports whether the session in dir is marked, and whether the machine was restarted since: then files
// in it may be cut off. If it cannot be told, both are true.
func Unsynced(dir *tree.Handle) (marked, lost bool) {
	var buf [64]byte
	n, err := unix.Readlinkat(int(dir.FD), UnsyncedName, buf[:])
	if err == unix.ENOENT {
		return false, false
	}
	boot := sys.BootID()
	return true, err != nil || boot == "" || string(buf[:n]) != boot
}

// UnmarkSynced removes the mark.
func UnmarkSynced(dir *tree.Handle) error {
	err := dir.Unlink(UnsyncedName, 0)
	if err == unix.ENOENT {
		return nil
	}
	return err
}
