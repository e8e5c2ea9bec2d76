//go:build linux

package host

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Project is the git work tree around dir, an absolute path, or dir itself. A directory of another user never counts as
// the caller's work tree, whatever is in it.
func Project(dir string) string {
	if tree, ok := links.WorkTree(dir); ok {
		return tree
	}
	return dir
}

// RealPath is a path of the host, absolute and without symbolic links.
func RealPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := linkless(abs)
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return real, err
}

// Bind binds real, a path without symbolic links, at the same path. The path is looked up again when it is mounted: if
// it then leads elsewhere, that is an error.
func Bind(real string, writable bool) (mounts.Mount, error) {
	m, _, err := bind(real, writable)
	return m, err
}

// bind is Bind, and says what is mounted.
func bind(real string, writable bool) (m mounts.Mount, st unix.Stat_t, err error) {
	m = mounts.ROBind(real, real)
	if writable {
		m = mounts.Bind(real, real)
	}
	fd, err := sys.Openat2(unix.AT_FDCWD, real, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return m, st, &os.PathError{Op: "open", Path: real, Err: err}
	}
	m.Same = fileID(&st)
	m.Onto = m.Same
	return m, st, nil
}

func fileID(st *unix.Stat_t) mounts.FileID {
	return mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
}

// Nearest is a path, or if nothing is there yet, its nearest existing parent.
func Nearest(path string) string {
	at, _ := existing(path)
	return at
}

// existing resolves the links of a path, as far as it exists, and returns what of it does not.
func existing(path string) (at, rest string) {
	for {
		at, err := linkless(path)
		if err == nil {
			return at, rest
		}
		if path == filepath.Dir(path) {
			return path, rest
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}

// linkless is filepath.EvalSymlinks for an absolute path. Most paths have no links, which one call tells.
func linkless(path string) (string, error) {
	fd, err := sys.Openat2(unix.AT_FDCWD, path, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		unix.Close(fd)
		return filepath.Clean(path), nil
	}
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// IsDir reports whether a path is a directory. A link to a directory is not one.
func IsDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// Exists reports whether the name exists, even as a link to nothing.
func Exists(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil
}

// openDir opens a directory to list it, and nothing else: opening a FIFO waits for another process, and opening a
// device has side effects.
func openDir(name string) (*os.File, error) {
	var fd int
	err := sys.Retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Empty reports whether a directory has nothing in it.
func Empty(dir string) bool {
	d, err := openDir(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return err == io.EOF
}

// Folder resolves a folder, whose path must not depend on this program's working directory. See links.Resolve.
func Folder(path string, suspect func(dir string) bool) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &plan.Error{Op: plan.OpUse, Path: path, Err: plan.ErrNotAbsolute}
	}
	real, err := links.Resolve(path, suspect)
	if err != nil {
		return "", &plan.Error{Op: plan.OpUse, Path: path, Err: err}
	}
	return real, nil
}
