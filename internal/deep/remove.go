//go:build linux

package deep

import (
	"cmp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Remove removes name in the directory parent and everything below it. It follows no link and crosses no mount, and
// makes unreadable directories readable first. A missing name is no error. After an error it removes what it can, and
// returns the first error of a system call.
func Remove(parent int, name string) error {
	for tries := 0; ; tries++ {
		err := unlink(parent, name, 0)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EISDIR {
			return err
		}
		r := remover{buf: make([]byte, bufSize)}
		if err = r.dir(parent, name, 0); !Swapped(err) || tries == 100 {
			return err
		}
	}
}

// Empty removes the content of the directory fd, which may be an O_PATH descriptor, as Remove does, and calls removed
// for each object. An error is an *Error.
func Empty(fd int, removed func(*unix.Stat_t)) error {
	r := remover{buf: make([]byte, bufSize), removed: removed}
	d, _, err := OpenForRemoval(fd, ".")
	if err == nil {
		defer unix.Close(d)
		err = r.contents(d, 0)
	}
	if err != nil {
		return &Error{r.failed, err}
	}
	return nil
}

// Swapped reports that something else has replaced a directory.
func Swapped(err error) bool { return err == unix.ENOTDIR || err == unix.ELOOP }

// A remover removes one tree. What is too deep is moved up into top, the tree's root, and removed from there.
type remover struct {
	top     int
	moved   int
	buf     []byte
	removed func(*unix.Stat_t)
	path    []string // names of the directories below top
	failed  string   // where the first error was
}

func (r *remover) dir(parent int, name string, depth int) error {
	d, st, err := OpenForRemoval(parent, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(d)
	if err := r.contents(d, depth); err != nil {
		return err
	}
	switch err := unlink(parent, name, unix.AT_REMOVEDIR); err {
	case nil:
		if r.removed != nil {
			r.removed(&st)
		}
	case unix.ENOENT:
	default:
		return err
	}
	return nil
}

// contents removes what is in a directory.
func (r *remover) contents(d, depth int) error {
	if depth == 0 {
		r.top = d
	}
	// Repeat until it is empty: removing entries may hide others from the listing, and deep directories may have
	// been moved here. But do not wait for somebody who creates files as fast as they are removed.
	for passes := 0; ; passes++ {
		moved := r.moved
		found, err := r.pass(d, depth)
		if !found {
			return err
		}
		if passes == 1000 {
			return cmp.Or(err, error(unix.ENOTEMPTY))
		}
		switch {
		case r.moved != moved:
			passes = 0
			if err != nil && depth > 0 {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// pass removes what a listing of a directory shows, which it does not follow for ever, and reports whether that is
// anything. It returns the first error.
func (r *remover) pass(d, depth int) (found bool, first error) {
	left := 1000
	for names, err := range sys.EachName(d, r.buf) {
		if err == unix.ENOENT { // somebody else has removed the directory
			return found, first
		}
		if left--; err != nil || left < 0 {
			return found, cmp.Or(first, err)
		}
		found = true
		for _, n := range names {
			r.path = append(r.path, n)
			if e := r.entry(d, n, depth); e != nil {
				if r.failed == "" {
					r.failed = short(r.path)
				}
				if first == nil {
					first = e
				}
			}
			r.path = r.path[:len(r.path)-1]
		}
	}
	return found, first
}

func (r *remover) entry(d int, name string, depth int) error {
	var st unix.Stat_t
	count := r.removed != nil && unix.Fstatat(d, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	err := unlink(d, name, 0)
	if err == nil && count {
		r.removed(&st)
	}
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR {
		return err
	}
	if depth < held {
		if err := r.dir(d, name, depth+1); !Swapped(err) {
			return err
		}
		return nil // the next pass sees what it is now
	}
	// Moving a directory to another parent needs write access to it.
	sub, _, err := OpenForRemoval(d, name)
	if Swapped(err) || err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	unix.Close(sub)
	for {
		r.moved++
		err := sys.RenameNew(d, name, r.top, ".deep-"+strconv.Itoa(r.moved))
		switch err {
		case unix.EEXIST: // the name is taken
		case unix.ENOENT:
			return nil
		default:
			return err
		}
	}
}

// OpenForRemoval opens a directory so that its entries can be removed.
func OpenForRemoval(parent int, name string) (fd int, st unix.Stat_t, err error) {
	p, err := openDir(parent, name, unix.O_PATH)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(p)
	if err := unix.Fstat(p, &st); err != nil {
		return -1, st, err
	}
	if st.Mode&0o700 != 0o700 {
		// It fails only if the directory is not ours; then opening it fails, too.
		_ = sys.Chmod(p, 0o700)
	}
	fd, err = openDir(p, ".", unix.O_RDONLY)
	return fd, st, err
}

func unlink(dir int, name string, flags int) error {
	return sys.Retry(func() error { return unix.Unlinkat(dir, name, flags) })
}
