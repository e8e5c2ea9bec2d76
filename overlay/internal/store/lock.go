//go:build linux

package store

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// The lock of a session is what everything that changes its directory is done under. Whoever uses
// the session holds it from Create or Open until Close: the owner. A process that looks after sessions that
// nobody uses, to recover or remove them or to begin another one on them, holds it for a
// moment: a caretaker. A caretaker never waits, and passes over what somebody has locked; an
// owner waits for a caretaker, so that nobody is told that a session is in use when it is not.
//
// It is a lock of the open file description, like flock's, so that it holds between
// goroutines too; unlike flock's it can be looked at without taking it, and has a range, which
// tells the two apart.

const LockName = "lock"

// A Holder is somebody who may have a session locked: the length of the locked range, which
// begins with the file.
type Holder int64

const (
	Owner     Holder = 0 // to the end of the file, wherever that is
	Caretaker Holder = 1 << 32
	Unheld    Holder = -1
)

// caretakerMost is how long an owner waits for caretakers.
const caretakerMost = 30 * time.Second

func openLock(dir *tree.Handle, access int) (*tree.Handle, error) {
	return dir.Open(LockName, access|unix.O_NOFOLLOW|unix.O_NONBLOCK)
}

// takeLock locks the open file f for as long as it is open, or fails with errBusy.
func takeLock(f *tree.Handle, as Holder) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Len: int64(as)}
	err := unix.FcntlFlock(uintptr(f.FD), unix.F_OFD_SETLK, &lk)
	if err == unix.EAGAIN || err == unix.EACCES {
		return ErrBusy
	}
	return err
}

// holderOf tells who else holds the lock f.
func holderOf(f *tree.Handle) (Holder, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(f.FD), unix.F_OFD_GETLK, &lk); err != nil {
		return Unheld, err
	}
	switch {
	case lk.Type == unix.F_UNLCK:
		return Unheld, nil
	case lk.Len == int64(Caretaker):
		return Caretaker, nil
	}
	return Owner, nil
}

// Locked tells who holds the lock of the session in dir. It opens nothing for writing: the disk
// may be read-only.
func Locked(dir *tree.Handle) (Holder, error) {
	f, err := openLock(dir, unix.O_RDONLY)
	if err != nil {
		return Unheld, err
	}
	defer f.Close()
	return holderOf(f)
}

// OpenSession opens the directory of a session; errGone where there is none.
func OpenSession(state *tree.Handle, name string) (*tree.Handle, error) {
	dir, err := OpenOwned(state, name)
	if err == unix.ENOENT {
		err = ErrGone
	}
	return dir, err
}

// LockSession opens the session's directory and its lock, and takes that. Nothing is open where
// it fails: with errBusy if somebody else has it, with errGone if there is no such session.
func LockSession(state *tree.Handle, name string, as Holder) (dir, lock *tree.Handle, err error) {
	if dir, err = OpenSession(state, name); err != nil {
		return nil, nil, err
	}
	if lock, err = LockDir(state, name, dir, as); err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, lock, nil
}

// LockDir takes the lock of the session name, which has the directory dir.
func LockDir(state *tree.Handle, name string, dir *tree.Handle, as Holder) (lock *tree.Handle, err error) {
	lock, err = openLock(dir, unix.O_RDWR)
	pause := time.Millisecond
	for until := time.Now().Add(caretakerMost); err == nil; {
		if err = takeLock(lock, as); !errors.Is(err, ErrBusy) || as == Caretaker {
			break
		}
		who, werr := holderOf(lock)
		if werr != nil || who == Owner || time.Now().After(until) {
			break
		}
		err = nil
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
	// It may have been removed, or have become another one's, before it was locked.
	if err = OrGone(state, name, dir, err); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// OrGone returns err, or errGone if the directory dir is not the session name any more: what
// was found in it is not about that then.
func OrGone(state *tree.Handle, name string, dir *tree.Handle, err error) error {
	same, serr := isNamed(state, name, dir)
	switch {
	case serr != nil:
		return serr
	case !same:
		return ErrGone
	}
	return err
}

// isNamed reports whether dir is what name stands for in state.
func isNamed(state *tree.Handle, name string, dir *tree.Handle) (bool, error) {
	a, err := dir.Stat()
	if err != nil {
		return false, err
	}
	b, found, err := state.LstatIf(name)
	return err == nil && found && a.Dev == b.Dev && a.Ino == b.Ino, err
}
