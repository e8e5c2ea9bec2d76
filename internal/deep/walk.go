//go:build linux

// Package deep walks and removes directory trees of any depth. It keeps a bounded number of descriptors open, and its
// memory grows with the depth, not with the length of the paths. The owner of a tree may change it meanwhile. It
// imports internal/sys only, follows no symbolic link and crosses no mount.
package deep

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// held is about how many directories are open at most.
const held = 64

const bufSize = 16 << 10

// An Error is an error at a path in a tree.
type Error struct {
	Path string // below the tree's directory, shortened where it is long; empty for itself
	Err  error
}

func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// short is a path for messages, with its middle omitted if it is long.
func short(names []string) string {
	const most = 4
	if len(names) > most {
		names = []string{names[0], names[1], "...", names[len(names)-1]}
	}
	return strings.Join(names, "/")
}

func openDir(parent int, name string, flags uint64) (int, error) {
	if name == "." && flags&unix.O_PATH != 0 {
		// Looking up "." needs the right to search the directory, which even its owner may not have yet.
		return unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 0)
	}
	return sys.Openat2(parent, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_XDEV)
}

// Walk calls each for everything below the directory fd, which may be an O_PATH descriptor. It follows no link and
// crosses no mount. It skips what it cannot read, and returns the first such error, an *Error.
func Walk(fd int, each func(*unix.Stat_t)) error {
	w := walker{each: each, buf: make([]byte, bufSize)}
	defer func() {
		for _, l := range w.levels {
			if l.fd >= 0 {
				unix.Close(l.fd)
			}
		}
	}()
	w.enter(fd, ".")
	for len(w.levels) > 0 {
		l := &w.levels[len(w.levels)-1]
		if n := len(l.dirs); n > 0 {
			name := l.dirs[n-1]
			l.dirs = l.dirs[:n-1]
			w.enter(l.fd, name)
		} else if !w.leave() {
			break
		}
	}
	if w.first != nil {
		return w.first
	}
	return nil
}

type walker struct {
	each   func(*unix.Stat_t)
	buf    []byte
	levels []level
	first  *Error
}

type level struct {
	name     string
	fd       int // negative: closed, to be reached from below
	dev, ino uint64
	dirs     []string // in it, and still to be entered
}

func (w *walker) fail(name string, err error) {
	if w.first != nil || err == nil || err == unix.ENOENT {
		return
	}
	var names []string
	for _, l := range w.levels {
		if l.name != "." {
			names = append(names, l.name)
		}
	}
	if name != "." {
		names = append(names, name)
	}
	w.first = &Error{short(names), err}
}

func (w *walker) enter(parent int, name string) {
	fd, err := openDir(parent, name, unix.O_RDONLY)
	if err != nil {
		w.fail(name, err)
		return
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		w.fail(name, err)
		return
	}
	w.levels = append(w.levels, level{name: name, fd: fd, dev: uint64(st.Dev), ino: st.Ino})
	l := &w.levels[len(w.levels)-1]
	for names, err := range sys.EachName(fd, w.buf) {
		w.fail(".", err)
		for _, n := range names {
			if err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				w.fail(n, err)
				continue
			}
			w.each(&st)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				l.dirs = append(l.dirs, n)
			}
		}
	}
	if at := len(w.levels) - held; at >= 0 {
		unix.Close(w.levels[at].fd)
		w.levels[at].fd = -1
	}
}

// leave goes back to the parent directory, and reports whether it still exists.
func (w *walker) leave() bool {
	last := w.levels[len(w.levels)-1]
	defer unix.Close(last.fd)
	w.levels = w.levels[:len(w.levels)-1]
	if len(w.levels) == 0 {
		return false
	}
	up := &w.levels[len(w.levels)-1]
	if up.fd >= 0 {
		return true
	}
	// If another directory is the parent now, it was moved.
	fd, err := unix.Openat(last.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && (uint64(st.Dev) != up.dev || st.Ino != up.ino) {
			err = unix.ESTALE
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		w.fail("..", err)
		return false
	}
	up.fd = fd
	return true
}
