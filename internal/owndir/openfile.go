//go:build linux

package owndir

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// refused is why something is not used; its errno says less.
type refused struct {
	why   string
	errno unix.Errno
	kind  error // ErrWritable, ErrForeign or nil
}

func (e *refused) Error() string { return e.why }

func (e *refused) Is(target error) bool { return target == e.kind }

func (e *refused) Unwrap() error { return e.errno }

// OpenFile opens the regular file at an absolute path without symbolic links, for reading. It and the directory that
// it is in must be root's, or with user the caller's, and nobody else can write to them; directories above are as Open
// wants them. An error is a *fs.PathError with the path that it is about.
func OpenFile(path string, user bool) (sys.FD, error) {
	w := way{path: "/"}
	fail := func(err error) (sys.FD, error) { return sys.None, &fs.PathError{Op: "open", Path: w.path, Err: err} }
	if secureexec.On() {
		return fail(secureexec.Err)
	}
	if err := w.begin(); err != nil {
		return fail(err)
	}
	defer func() { w.at.Close() }()
	dir, name := filepath.Split(filepath.Clean(path))
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if part == "" {
			continue
		}
		if err := w.step(part, false); err != nil {
			return fail(err)
		}
	}
	if err := w.private(&w.st, user); err != nil {
		return fail(err)
	}
	w.path = filepath.Join(w.path, name)
	fd := sys.None
	err := sys.Retry(func() error {
		n, err := unix.Openat(int(w.at), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			fd = sys.FD(n)
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	var st unix.Stat_t
	if err = sys.Retry(func() error { return unix.Fstat(int(fd), &st) }); err == nil {
		err = w.private(&st, user)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = &refused{"not a regular file", unix.EINVAL, nil}
	}
	if err != nil {
		fd.Close()
		return fail(err)
	}
	return fd, nil
}

// private refuses what somebody other than root, or with user the caller, owns, or others can write to.
func (w *way) private(st *unix.Stat_t, user bool) error {
	if st.Uid != 0 && st.Uid != w.top && !(user && st.Uid == w.user) {
		return &refused{fmt.Sprintf("it belongs to user %d", st.Uid), unix.EPERM, ErrForeign}
	}
	if st.Mode&0o022 != 0 {
		return &refused{"others can write to it", unix.EPERM, ErrWritable}
	}
	return nil
}
