//go:build linux

package homelayer

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// The locked bytes of the file lock. Locks belong to the open file description, so they also exclude other goroutines.
const (
	writing int64 = 0 // held, to write to upper and to merge
	using   int64 = 1 // shared by all who use the layer; held alone, to merge or remove
)

// patience is how long to wait for a merge.
const patience = 30 * time.Second

// lock takes a lock, F_WRLCK or F_RDLCK, on a byte. Not ok: another user has it.
func lock(f sys.FD, kind int16, at int64) (ok bool, err error) {
	lk := unix.Flock_t{Type: kind, Start: at, Len: 1}
	err = sys.Retry(func() error { return unix.FcntlFlock(uintptr(f), unix.F_OFD_SETLK, &lk) })
	if err == unix.EAGAIN || err == unix.EACCES {
		return false, nil
	}
	return err == nil, err
}

// share takes the lock of a user, and waits for a merge.
func share(f sys.FD) (ok bool, err error) {
	pause := time.Millisecond
	for until := time.Now().Add(patience); ; pause = min(2*pause, 50*time.Millisecond) {
		if ok, err = lock(f, unix.F_RDLCK, using); ok || err != nil || time.Now().After(until) {
			return ok, err
		}
		time.Sleep(pause)
	}
}

// openAlone opens the lock of l, whose directory is open, and takes it as alone does. It then removes what an
// interrupted Keep left behind. ErrBusy: a command uses the layer.
func (l *Layer) openAlone() (err error) {
	if l.lock, err = openAt(l.dir, lockName, unix.O_RDWR); err != nil {
		return err
	}
	ok, err := alone(l.lock)
	if err == nil && !ok {
		err = ErrBusy
	}
	if err == nil {
		err = l.tidyKept()
	}
	return err
}

// alone takes both locks, to merge or remove, or neither.
func alone(f sys.FD) (ok bool, err error) {
	if ok, err = lock(f, unix.F_WRLCK, writing); !ok {
		return false, err
	}
	if ok, err = lock(f, unix.F_WRLCK, using); !ok {
		_, _ = lock(f, unix.F_UNLCK, writing)
	}
	return ok, err
}
