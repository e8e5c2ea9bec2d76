//go:build linux

package store

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Whoever changes the directory of a session holds its lock. The owner uses the session, and holds the lock from Create
// or Open until Close. A caretaker holds it for a moment, to recover or remove a session that nobody uses, or to begin
// another session on it. A caretaker never waits, and skips sessions that are locked. An owner waits for a caretaker,
// so that nobody is told that a session is in use when it is not.
//
// It is a lock of the open file description, like that of flock(2), so it also works between goroutines. Unlike that
// one, it can be tested without taking it, and it has a range, which tells an owner from a caretaker.

const LockName = "lock"

// A Holder is a kind of holder of the lock. Its value is the length of the locked range, which
// begins at the beginning of the file.
type Holder int64

const (
	Owner     Holder = 0 // to the end of the file
	Caretaker Holder = 1 << 32
	Unheld    Holder = -1
)

// caretakerMost is how long an owner waits for caretakers.
const caretakerMost = 30 * time.Second

func openLock(dir *tree.Handle, access int) (*tree.Handle, error) {
	return dir.Open(LockName, access|unix.O_NOFOLLOW|unix.O_NONBLOCK)
}

// takeLock locks the open file f for as long as it is open, or fails with ErrBusy.
func takeLock(f *tree.Handle, as Holder) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Len: int64(as)}
	err := unix.FcntlFlock(uintptr(f.FD), unix.F_OFD_SETLK, &lk)
	if err == unix.EAGAIN || err == unix.EACCES {
		return ErrBusy
	}
	return err
}

// holderOf returns who else holds the lock f.
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

// Locked returns who holds the lock of the session in dir. It opens nothing for writing, because the
// disk may be read-only.
func Locked(dir *tree.Handle) (Holder, error) {
	f, err := openLock(dir, unix.O_RDONLY)
	if err != nil {
		return Unheld, err
	}
	defer f.Close()
	return holderOf(f)
}

// OpenSession opens the directory of a session. If there is none, the error is ErrGone.
func OpenSession(state *tree.Handle, name string) (*tree.Handle, error) {
	dir, err := OpenOwned(state, name)
	if err == unix.ENOENT {
		err = ErrGone
	}
	return dir, err
}

// LockSession opens the session's directory and its lock, and takes the lock. The error is
// ErrBusy if somebody else has it, and ErrGone if there is no such session.
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
	// The session may have been removed or replaced before it was locked.
	if err = OrGone(state, name, dir, err); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// OrGone returns err, or ErrGone if the directory dir is no longer that of the session name:
// then err is not about that session.
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

// isNamed reports whether dir is what has the name in state.
func isNamed(state *tree.Handle, name string, dir *tree.Handle) (bool, error) {
	a, err := dir.Stat()
	if err != nil {
		return false, err
	}
	b, found, err := state.LstatIf(name)
	return err == nil && found && a.Dev == b.Dev && a.Ino == b.Ino, err
}
