//go:build linux

package tree

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// An owner can have no access to a directory or file (mode 000), and still change that, as root of a new user namespace
// can without a change. A walk must not change the project. So it asks such a process, an Opener, for descriptors.

// An Opener opens what the caller owns without the permission to open it, for reading only. It may be used by several
// goroutines.
type Opener interface {
	// OpenOwn is openat2(2). An error usual, which is expected more often than others, costs less.
	OpenOwn(at sys.FD, name string, flags, resolve uint64, usual unix.Errno) (sys.FD, error)

	// OwnXattr is fgetxattr(2).
	OwnXattr(at sys.FD, name string, buf []byte) (int, error)

	// Works reports whether it can open anything.
	Works() bool

	Close()
}

// With returns h with an opener, for Real.H. Both have the same descriptor.
func (h *Handle) With(o Opener) *Handle {
	own := *h
	own.opener = o
	return &own
}

// own reports whether an Opener can open s.
func (s Stat) own() bool { return s.Owned() && int(s.GID) == os.Getegid() && !IsRoot() }

// opens reports whether the opener of h can open what s describes.
func (h *Handle) opens(s Stat) bool { return h.opener != nil && s.own() && h.opener.Works() }

// perhapsOwn reports whether name below h, which cannot be opened, is the caller's own, or is in a directory that is.
func (h *Handle) perhapsOwn(name string) bool {
	p, err := Openat2(h.FD, name, unix.O_PATH|unix.O_NOFOLLOW, 0, beneath)
	if err != nil {
		return err == unix.EACCES && !IsRoot()
	}
	defer p.Close()
	st, err := p.Stat()
	return err == nil && st.own()
}

// ask opens name with the opener of h, which it does not keep.
func (h *Handle) ask(name string, flags, resolve uint64, usual unix.Errno) (*Handle, error) {
	fd, err := h.opener.OpenOwn(h.FD, name, flags, resolve, usual)
	if err != nil {
		return nil, err
	}
	return &Handle{FD: fd}, nil
}

// lstatClosed is Lstat in a directory in which the caller may not look up names.
func (h *Handle) lstatClosed(name string) (Stat, error) {
	if st, err := h.Stat(); err != nil || !st.own() {
		return Stat{}, unix.EACCES
	}
	p, err := h.ask(name, unix.O_PATH|unix.O_NOFOLLOW, beneath&^unix.RESOLVE_NO_XDEV, unix.ENOENT)
	if err != nil {
		return Stat{}, err
	}
	defer p.Close()
	return p.Stat()
}
