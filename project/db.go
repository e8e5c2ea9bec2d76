//go:build linux

package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/sys"
)

const dbName = "registry.db"

// view calls fn with a read transaction. If there is no database yet, it does not call fn.
func (r *Registry) view(fn func(*bbolt.Tx) error) error {
	if err := r.mergeForReading(); err != nil {
		return err
	}
	return r.viewAsIs(fn)
}

// viewAsIs is view without merging the journal.
func (r *Registry) viewAsIs(fn func(*bbolt.Tx) error) error {
	r.db.Lock()
	defer r.db.Unlock()
	d, err := r.directory(false)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for {
		err := r.transact(d, false, nil, func(tx *bbolt.Tx) error {
			v, err := version(tx)
			if err != nil {
				return err
			}
			if v < current {
				return errOld
			}
			return fn(tx)
		})
		switch err {
		case unix.ENOENT:
			return nil
		case errOld:
			if err := r.transact(d, true, nil, migrate); err != nil {
				return wrap("migrate registry", filepath.Join(d.path, dbName), err)
			}
			continue
		}
		return wrap("read registry", filepath.Join(d.path, dbName), err)
	}
}

var (
	errOld      = errors.New("an older version of nsrun wrote it")
	errUnmapped = errors.New("files on this file system cannot be mapped into memory")
)

// update merges the journal into the database, and then calls fn, if it is not nil, in the
// same transaction. When it returns, the database is on disk.
func (r *Registry) update(fn func(*bbolt.Tx) error) error {
	r.db.Lock()
	defer r.db.Unlock()
	d, err := r.directory(fn != nil)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if fn == nil && !hasJournal(d) {
		return nil
	}
	var m merge
	err = r.transact(d, true, func() error { return m.done(d) }, func(tx *bbolt.Tx) error {
		if err := migrate(tx); err != nil {
			return err
		}
		if err := m.take(tx, d, r.o.Wait, nanos(r.now())); err != nil {
			return err
		}
		if fn == nil {
			return nil
		}
		return fn(tx)
	})
	return wrap("write registry", filepath.Join(d.path, dbName), err)
}

// transact opens and locks the database, calls fn in one transaction, calls done, if it is not
// nil, when the transaction is on disk, and closes the database.
func (r *Registry) transact(d *dir, write bool, done func() error, fn func(*bbolt.Tx) error) (err error) {
	var f *os.File
	var db *bbolt.DB
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		// bbolt panics if a page is damaged, and reading a file that became shorter
		// faults. Then nothing in db can be used, not even Close.
		if p := recover(); p != nil {
			if f != nil {
				// The mapping stays, and would keep the lock.
				_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
				_ = f.Close()
			}
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
			return
		}
		if db != nil {
			if cerr := db.Close(); err == nil {
				err = sys.Bare(cerr)
			}
		}
	}()
	db, err = bbolt.Open(dbName, 0o600, &bbolt.Options{
		ReadOnly:     !write,
		FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
		Timeout:      r.o.Wait,
		OpenFile: func(name string, flags int, _ os.FileMode) (_ *os.File, err error) {
			f, err = r.openDB(d, name, flags)
			return f, err
		},
	})
	if err != nil {
		db = nil
		if write || !missing(err) {
			if err = refused(err); errors.Is(err, errUnmapped) {
				err = homedir.OnAnother(err, r.stateVariable)
			}
		}
		return err
	}
	if write {
		if err := db.Update(fn); err != nil || done == nil {
			return err
		}
		return done()
	}
	return db.View(fn)
}

// refused distinguishes damage from other reasons why bbolt does not open a file.
func refused(err error) error {
	for _, e := range []error{boltErrors.ErrInvalid, boltErrors.ErrVersionMismatch, boltErrors.ErrChecksum} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %v", ErrDamaged, err)
		}
	}
	for _, e := range []error{unix.EINVAL, unix.ENODEV} { // of mmap(2), as on 9p
		if errors.Is(err, e) {
			return errUnmapped
		}
	}
	return sys.Bare(err)
}

// openDB opens and locks the file of the database. The first time, it also verifies all of it.
func (r *Registry) openDB(d *dir, name string, flags int) (_ *os.File, err error) {
	end := time.Now().Add(r.o.Wait)
	for {
		f, err := d.file(name, flags&^os.O_CREATE)
		made := err == unix.ENOENT && flags&os.O_CREATE != 0
		if made {
			f, err = d.file(name, flags|os.O_CREATE)
		}
		if err != nil {
			return nil, err
		}
		how := unix.LOCK_SH
		if flags&os.O_RDWR != 0 {
			how = unix.LOCK_EX
		}
		if err := lock(f, how, end); err != nil {
			_ = f.Close()
			return nil, err
		}
		same, err := isAt(d, name, f)
		if err == nil && same {
			if made {
				err = d.sync() // bbolt flushes the file, but not its name
			}
			if err == nil && !r.verified {
				if err = verifyFile(f); err == errUnbegun {
					if err = unix.ENOENT; flags&os.O_RDWR != 0 {
						err = sys.Bare(f.Truncate(0)) // bbolt begins it again
					}
				}
				r.verified = err == nil
			}
			if err == nil && flags&os.O_RDWR == 0 {
				// The process that made it was killed before it wrote anything.
				if st, serr := f.Stat(); serr == nil && st.Size() == 0 {
					err = unix.ENOENT
				}
			}
			if err == nil {
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// isAt reports whether f is what is at name in d now.
func isAt(d *dir, name string, f *os.File) (bool, error) {
	var have unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &have); err != nil {
		return false, err
	}
	st, err := d.lstat(name)
	if err == unix.ENOENT {
		return false, nil
	}
	return st.Dev == have.Dev && st.Ino == have.Ino, err
}

// lock takes a lock on f (flock(2)). It tries again until the time is over, because a blocking call cannot be given up.
// bbolt itself tries every 50 ms, which is longer than a hundred transactions.
func lock(f *os.File, how int, end time.Time) error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		err := sys.Retry(func() error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) })
		if err != unix.EWOULDBLOCK {
			return err
		}
		if time.Now().After(end) {
			return ErrBusy
		}
		time.Sleep(pause)
	}
}

func verifyFile(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Size == 0 {
		return err
	}
	if st.Size > maxDB {
		return fmt.Errorf("%w: it is too large", ErrDamaged)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(data)
	return verify(data)
}

// mergeForReading merges the journal into the database for readers. If the database cannot
// be written, readers see it without the journal.
func (r *Registry) mergeForReading() error {
	err := r.update(nil)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
