//go:build linux

// Package links resolves paths of the host that people and programs give, and refuses symbolic links that a command in
// a sandbox can have made. It imports internal/escape, internal/paths, internal/sys and package overlay, which knows
// the roots of sessions, and does not open what a path names.
package links

import (
	"cmp"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/sys"
)

// Error is about a symbolic link that commands, or another user, can have created.
type Error struct {
	Link string // where it is, an absolute path without links
	To   string // where it leads
	User uint32 // who can have made it; zero: a command
}

func (e *Error) Error() string {
	maker := "a command in a sandbox"
	if e.User != 0 {
		maker = "user " + strconv.FormatUint(uint64(e.User), 10)
	}
	return escape.Quote(e.Link) + " is a symbolic link to " + escape.Quote(e.To) + ", and " + maker + " may have created it"
}

// most is the kernel's limit on links in a path.
const most = 40

// Resolve is where an absolute path leads, without symbolic links. A link in a directory that suspect reports, by its
// path without links, is an *Error; nobody is asked where there is no link. So is one by which another user would have
// the caller use what is not that user's own. Other errors are of type unix.Errno.
//
// Opening the result without following links (RESOLVE_NO_SYMLINKS) gives nothing
// from elsewhere, whatever was exchanged meanwhile. A path that is resolved twice can
// lead elsewhere the second time, but not to what who exchanged it could not use.
func Resolve(name string, suspect func(dir string) bool) (string, error) {
	return resolve(name, suspect, true)
}

// Follow is Resolve, but also follows links of other users: for paths that are hidden or protected whoever made the
// link.
func Follow(name string, suspect func(dir string) bool) (string, error) {
	return resolve(name, suspect, false)
}

func resolve(name string, suspect func(dir string) bool, wary bool) (string, error) {
	name = path.Clean(name)
	plain, err := open(unix.AT_FDCWD, name, 0, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		unix.Close(plain)
		return name, nil
	}
	if err != unix.ELOOP {
		return "", err
	}
	w := walk{at: -1, suspect: suspect, wary: wary}
	defer w.close()
	if err := w.follow(name); err != nil {
		return "", err
	}
	return w.path, nil
}

// Never is a suspect for paths that are free of links.
func Never(string) bool { return true }

func open(at int, name string, flags, resolve uint64) (fd int, err error) {
	return sys.Openat2(at, name, unix.O_PATH|flags, 0, resolve|unix.RESOLVE_NO_MAGICLINKS)
}

// walk is a walk along a path: at is open, and path is its path.
type walk struct {
	at      int
	path    string
	links   int
	suspect func(dir string) bool
	wary    bool // of other users
}

func (w *walk) close() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
	w.at = -1
}

func (w *walk) step(at int, name string) error {
	fd, err := open(at, name, unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	w.close()
	w.at = fd
	return nil
}

func (w *walk) follow(name string) error {
	if path.IsAbs(name) {
		if err := w.step(unix.AT_FDCWD, "/"); err != nil {
			return err
		}
		w.path = "/"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			if err := w.step(w.at, ".."); err != nil {
				return err
			}
			w.path = path.Dir(w.path)
			continue
		}
		fd, err := open(w.at, part, unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		text, err := readlink(fd)
		if err == unix.ENOENT || err == unix.EINVAL { // no link
			w.close()
			w.at, w.path = fd, path.Join(w.path, part)
			continue
		}
		var maker uint32
		if err == nil && w.wary {
			maker, err = stranger(w.at, fd)
		}
		unix.Close(fd)
		if err != nil {
			return err
		}
		link := path.Join(w.path, part)
		if w.suspect(w.path) {
			return &Error{Link: link, To: w.leads(text)}
		}
		if w.links++; w.links > most {
			return unix.ELOOP
		}
		if err := w.follow(text); err != nil {
			return err
		}
		if maker == 0 {
			continue
		}
		if lent, err := lends(w.at, maker); err != nil || lent {
			return cmp.Or[error](err, &Error{link, w.path, maker})
		}
	}
	return nil
}

func (w *walk) leads(text string) string {
	if !path.IsAbs(text) {
		text = w.path + "/" + text
	}
	if real, err := filepath.EvalSymlinks(text); err == nil {
		return real
	}
	return path.Clean(text)
}

// readlink returns the text of the link fd; ENOENT: it is not a link.
func readlink(fd int) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	return string(b[:max(n, 0)]), err
}
