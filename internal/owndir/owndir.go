//go:build linux

// Package owndir opens the directories in which nsrun keeps its state, and creates them if asked to. It refuses a
// directory that somebody else owns, can write to, or could have put in that place. It imports internal/secureexec and
// internal/sys, and does not know what is kept there.
package owndir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// ErrShared is the cause if any user could put another directory in the place of the caller's: a directory on the way
// can be written to by everybody, and is not sticky.
var ErrShared error = &refused{"everybody can write to it", unix.EPERM, ErrWritable}

// What errors.Is finds of something that was refused: others can write to it, or own it.
var (
	ErrWritable = errors.New("others can write to it")
	ErrForeign  = errors.New("others own it")
)

// Open opens the directory at path for reading; it must be the caller's, and writable by
// nobody else. It returns where that is, without symbolic links. With create, what is
// missing is made, mode 0700. An error is a *fs.PathError with the path that it is about.
//
// The owner of a directory on the way could put another one in its place, so each must belong to root or to the caller,
// and if everybody can write to it it must be sticky, as /tmp is. Links on the way are the user's business (/home may
// be one), but the last name must not be one, and what is made is made below no link.
func Open(path string, create bool) (_ sys.FD, real string, err error) {
	if secureexec.On() {
		return sys.None, "", &fs.PathError{Op: "open", Path: path, Err: secureexec.Err}
	}
	if path, err = filepath.Abs(path); err != nil {
		return sys.None, "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var missing []string
	existing := filepath.Dir(path)
	for {
		p, err := ResolveLinks(existing)
		if err == nil {
			existing = p
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || existing == "/" {
			return sys.None, "", &fs.PathError{Op: "open", Path: existing, Err: sys.Bare(err)}
		}
		missing = append(missing, filepath.Base(existing))
		existing = filepath.Dir(existing)
	}
	slices.Reverse(missing)
	missing = append(missing, filepath.Base(path))
	w := way{path: "/"}
	if err := w.begin(); err != nil {
		return sys.None, "", &fs.PathError{Op: "open", Path: w.path, Err: err}
	}
	defer func() { w.at.Close() }()
	for name := range strings.SplitSeq(strings.Trim(existing, "/"), "/") {
		if name == "" {
			continue
		}
		if err := w.step(name, false); err != nil {
			return sys.None, "", &fs.PathError{Op: "open", Path: w.path, Err: err}
		}
	}
	for _, name := range missing {
		if err := w.step(name, create); err != nil {
			return sys.None, "", &fs.PathError{Op: "open", Path: w.path, Err: err}
		}
	}
	fd, err := w.last(create)
	if err != nil {
		return sys.None, "", &fs.PathError{Op: "open", Path: w.path, Err: err}
	}
	return fd, w.path, nil
}

// A way is how far Open has come.
type way struct {
	at   sys.FD
	path string
	top  uint32      // who owns "/"
	user uint32      // who calls
	st   unix.Stat_t // of at
	made bool        // at was not there
}

func (w *way) begin() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.at = sys.FD(fd)
	if err := unix.Fstat(fd, &w.st); err != nil {
		return err
	}
	w.top, w.user = w.st.Uid, uint32(os.Geteuid())
	return nil
}

// open opens what is at name, through no link.
func (w *way) open(name string, flags uint64) (fd sys.FD, err error) {
	n, err := sys.Openat2(int(w.at), name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	return sys.FD(n), err
}

func (w *way) step(name string, create bool) error {
	fd, err := w.open(name, unix.O_PATH)
	w.made = false
	if err == unix.ENOENT && create {
		if err = sys.Mkdir(int(w.at), name, 0o700); err == nil || err == unix.EEXIST {
			w.made = err == nil
			fd, err = w.open(name, unix.O_PATH)
		}
	}
	w.path = filepath.Join(w.path, name)
	if err != nil {
		return err
	}
	w.at.Close()
	w.at = fd
	st := &w.st
	if err := unix.Fstat(int(fd), st); err != nil {
		return err
	}
	// In a user namespace root's files may seem to be nobody's: then "/" seems so as well.
	if st.Uid != w.user && st.Uid != 0 && st.Uid != w.top {
		return &refused{fmt.Sprintf("it belongs to user %d", st.Uid), unix.EPERM, ErrForeign}
	}
	if st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return ErrShared
	}
	return nil
}

// last opens for reading where the way ends.
func (w *way) last(create bool) (sys.FD, error) {
	fd, err := w.open(".", unix.O_RDONLY)
	if err != nil {
		return sys.None, err
	}
	if err := Check(fd); err != nil {
		fd.Close()
		return sys.None, err
	}
	if create {
		ownGroup(fd)
	}
	if w.made { // for sessions, which come and go, and may have many files
		sys.Spread(fd)
	}
	return fd, nil
}

// ownGroup gives a directory the caller's own group if its group may do nothing there. Directories below set-group-id
// ones, such as Kubernetes' volumes with fsGroup, have another one, and so has all that is made in them. No overlay can
// be mounted there: a user namespace has only the caller's own group, and over files of others its root has no rights.
// If the system refuses that, sessions do without overlays.
func ownGroup(fd sys.FD) {
	var st unix.Stat_t
	if sys.Retry(func() error { return unix.Fstat(int(fd), &st) }) != nil || st.Gid == uint32(os.Getegid()) || st.Mode&0o070 != 0 {
		return
	}
	if sys.Retry(func() error { return unix.Fchown(int(fd), -1, os.Getegid()) }) == nil {
		_ = sys.Chmod(int(fd), st.Mode&0o1777)
	}
}

// Check refuses what belongs to somebody else, or what others can write to.
func Check(fd sys.FD) error {
	var st unix.Stat_t
	if err := sys.Retry(func() error { return unix.Fstat(int(fd), &st) }); err != nil {
		return err
	}
	switch {
	case st.Uid != uint32(os.Geteuid()):
		return &refused{fmt.Sprintf("it belongs to user %d", st.Uid), unix.EPERM, ErrForeign}
	case st.Mode&0o022 != 0:
		return &refused{"others can write to it", unix.EPERM, ErrWritable}
	}
	return nil
}

// ResolveLinks is filepath.EvalSymlinks, but for links that somebody else put into a directory that all can write to:
// what fs.protected_symlinks is against (proc_sys_fs(5)), which resolving in user space, and some hosts, do without.
func ResolveLinks(path string) (string, error) {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		var st, dir unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return "", err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", unix.ELOOP
		}
		if err := unix.Lstat(at, &dir); err != nil {
			return "", err
		}
		const shared = unix.S_ISVTX | unix.S_IWOTH
		if dir.Mode&shared == shared && st.Uid != dir.Uid && st.Uid != uint32(unix.Geteuid()) {
			return "", fmt.Errorf("%s is a link of user %d's: %w", next, st.Uid, unix.EPERM)
		}
		text, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(text) {
			at = "/"
		}
		rest = append(strings.Split(text, "/"), rest...)
	}
	return at, nil
}
