//go:build linux

package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/sys"
)

// A dir is a directory that is held open. All that is in it is reached through the descriptor, without following links.
type dir struct {
	fd   sys.FD
	path string // for messages, and for what is recorded
}

func (d *dir) close() {
	if d != nil {
		d.fd.Close()
	}
}

// openat opens what is at name below d: no link on the way, none at the end, and no
// waiting for the other end of a FIFO.
func openat(at sys.FD, name string, flags int, perm uint32) (sys.FD, error) {
	mode := uint64(0)
	if flags&unix.O_CREAT != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE {
		mode = uint64(perm)
	}
	if flags&unix.O_PATH == 0 { // openat2(2) refuses what would not matter
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	fd, err := sys.Openat2(int(at), name, uint64(flags|unix.O_NOFOLLOW), mode,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	return sys.FD(fd), err
}

// file opens or creates a file of the caller's.
func (d *dir) file(name string, flags int) (*os.File, error) {
	fd, err := openat(d.fd, name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := checkOwned(fd, unix.S_IFREG); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

// sub opens a directory of the caller's in d; with create it is made, mode 0700.
func (d *dir) sub(name string, create bool) (*dir, error) {
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT && create {
		if err = sys.Mkdir(int(d.fd), name, 0o700); err == nil || err == unix.EEXIST {
			fd, err = openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := checkOwned(fd, unix.S_IFDIR); err != nil {
		return nil, err
	}
	return &dir{fd, filepath.Join(d.path, name)}, nil
}

func (d *dir) lstat(name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(int(d.fd), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func (d *dir) unlink(name string, flags int) error { return unix.Unlinkat(int(d.fd), name, flags) }

func (d *dir) sync() error { return sys.Fsync(int(d.fd)) }

// names lists what is in d, in no order.
func (d *dir) names() ([]string, error) {
	fd, err := openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	return f.Readdirnames(-1)
}

// checkOwned is owned for what is open, which it closes after an error.
func checkOwned(fd sys.FD, typ uint32) error {
	var st unix.Stat_t
	err := unix.Fstat(int(fd), &st)
	if err == nil {
		err = owned(&st, typ)
	}
	if err != nil {
		fd.Close()
	}
	return err
}

// owned refuses what is of another type, somebody else's, or writable by others.
func owned(st *unix.Stat_t, typ uint32) error {
	switch {
	case st.Mode&unix.S_IFMT != typ && typ == unix.S_IFDIR:
		return unix.ENOTDIR
	case st.Mode&unix.S_IFMT != typ:
		return sys.ErrNotRegular
	case st.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("it belongs to user %d: %w", st.Uid, unix.EPERM)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others can write to it: %w", unix.EPERM)
	}
	return nil
}

// openPrivate opens a directory that must be the caller's own, see owndir.Open.
func openPrivate(path string, create bool) (*dir, error) {
	fd, path, err := owndir.Open(path, create)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &Error{"open directory", e.Path, e.Err}
	}
	return &dir{fd, path}, err
}

func newDir(fd int, path string) *dir { return &dir{sys.FD(fd), path} }
