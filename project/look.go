//go:build linux

package project

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A looker looks at files below a root, and keeps the directory of the last one open.
type looker struct {
	root *dir // nil: it is gone
	at   string
	fd   sys.FD // of the directory at; sys.None: it is not open
}

func (l *looker) close() {
	l.root.close()
	l.fd.Close()
}

// look reports whether there is a regular file at a path, and what it is like.
func (l *looker) look(name string) (st unix.Stat_t, ok bool) {
	if l.root == nil {
		return st, false
	}
	if at := path.Dir(name); l.fd == sys.None || l.at != at {
		l.fd.Close()
		l.at = at
		fd, err := openat(l.root.fd, at, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			l.fd = sys.None
			return st, false
		}
		l.fd = fd
	}
	err := unix.Fstatat(int(l.fd), path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	return st, err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
