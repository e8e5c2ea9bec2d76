//go:build linux

package nsrun

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
)

// FindProject is the git work tree around dir, an absolute path, or dir itself.
// Directories of others are no work tree of the caller's, whatever somebody put into
// them.
func FindProject(dir string) string {
	if tree, ok := links.WorkTree(dir); ok {
		return tree
	}
	return dir
}

// realPath is a path of the host, absolute and without symbolic links.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return real, err
}

// bindReal is a bind of what is at real, a path without symbolic links, at the same
// path. A path is looked up again when it is mounted: if it leads elsewhere by then,
// that is an error.
func bindReal(real string, writable bool) (mounts.Mount, error) {
	m := mounts.ROBind(real, real)
	if writable {
		m = mounts.Bind(real, real)
	}
	fail := func(err error) (mounts.Mount, error) { return m, &os.PathError{Op: "open", Path: real, Err: err} }
	fd, err := unix.Openat2(unix.AT_FDCWD, real, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(err)
	}
	m.Same = fileID(&st)
	return m, nil
}

// inside reports whether the absolute path p is dir or lies below it.
func inside(p, dir string) bool { return links.Inside(p, dir) }

// mountBelow is a mount point below dir that can be seen, "" if there is none.
func mountBelow(table []mounts.Info, dir string) string {
	if below := mounts.Below(table, dir); len(below) > 1 {
		return filepath.Join(dir, below[1].Target)
	}
	return ""
}

func fileID(st *unix.Stat_t) mounts.FileID {
	return mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
}
