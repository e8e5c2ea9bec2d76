//go:build linux

package tree

import (
	"encoding/binary"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Xattrs are extended attributes by name.
type Xattrs map[string]string

const OverlayPrefix = "user.overlay."

// WantedXattr reports whether an attribute belongs to the project: those that a user
// can set, and access control lists, which change the meaning of a mode.
func WantedXattr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, OverlayPrefix) ||
		name == "system.posix_acl_access" || name == "system.posix_acl_default"
}

// SetOwner sets the owner's entry of the access control list, if there is one, to the
// permissions in mode, as chmod(2) does.
func (x Xattrs) SetOwner(mode uint32) {
	const (
		name    = "system.posix_acl_access"
		head    = 4 // the version
		entry   = 8 // tag, permissions, id: include/uapi/linux/posix_acl_xattr.h
		userObj = 1
	)
	acl := []byte(x[name])
	for at := head; at+entry <= len(acl); at += entry {
		if e := acl[at:]; binary.LittleEndian.Uint16(e) == userObj {
			binary.LittleEndian.PutUint16(e[2:], uint16(mode>>6&7))
			x[name] = string(acl)
		}
	}
}

// CapabilityXattr holds a file's capabilities.
const CapabilityXattr = "security.capability"

// ErrLayer is returned for objects with a mark of overlayfs that says that their content is elsewhere. Sessions are
// mounted so that the kernel never makes one. A command that writes in place can mark the project's own.
var ErrLayer = errors.New("it carries an overlay mark that no session makes; setfattr -x removes it: user.overlay.redirect or user.overlay.metacopy")

// noXattrs reports whether err says that the file system of h has no attributes.
func (h *Handle) noXattrs(err error) bool {
	return err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EIO && h.onFUSE()
}

// XattrNames lists all attributes of h; a file system without any is not an error.
func (h *Handle) XattrNames() ([]string, error) {
	var small [256]byte
	for buf := small[:]; ; {
		n, err := h.flistxattr(buf)
		if err == unix.ERANGE && len(buf) < 1<<20 {
			buf = make([]byte, max(1<<10, len(buf)*8))
			continue
		}
		if h.noXattrs(err) || err == unix.EBADF {
			return nil, nil // EBADF: h is O_PATH, because it may not be read
		}
		if err != nil || n == 0 {
			return nil, err
		}
		return splitNames(buf[:n]), nil
	}
}

// flistxattr wraps flistxattr(2), for a buffer that stays on the stack.
func (h *Handle) flistxattr(buf []byte) (int, error) {
	n, _, errno := syscall.Syscall(unix.SYS_FLISTXATTR, uintptr(h.FD), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// splitNames splits what listxattr(2) returns.
func splitNames(list []byte) []string {
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// noListxattrat says that the kernel does not have listxattrat(2).
var noListxattrat atomic.Bool

// xattrNamesOf lists all attributes of name in the directory h, and follows no link. It
// needs no read permission. A file system without attributes is not an error.
func (h *Handle) xattrNamesOf(name string) ([]string, error) {
	var small [256]byte
	buf := small[:]
	for {
		n, err := h.listxattrat(name, buf)
		if err == unix.EACCES && h.opener != nil {
			n, err = h.listClosed(name, buf)
		}
		switch {
		case err == unix.ERANGE && len(buf) < 1<<20:
			buf = make([]byte, max(1<<10, len(buf)*8))
		case h.noXattrs(err):
			return nil, nil
		case err != nil || n == 0:
			return nil, err
		default:
			return splitNames(buf[:n]), nil
		}
	}
}

func (h *Handle) listxattrat(name string, buf []byte) (int, error) {
	if !noListxattrat.Load() {
		var zero [256]byte
		p, err := zeroed(&zero, name)
		if err != nil {
			return 0, err
		}
		n, _, errno := syscall.Syscall6(unix.SYS_LISTXATTRAT, uintptr(h.FD), uintptr(unsafe.Pointer(p)),
			unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.ENOSYS, unix.EPERM:
			noListxattrat.Store(true) // before Linux 6.13, or in another sandbox
		default:
			return 0, errno
		}
	}
	return unix.Llistxattr(h.ProcPath()+"/"+name, buf)
}

// listClosed is listxattrat in a directory in which the caller may not look up names.
func (h *Handle) listClosed(name string, buf []byte) (int, error) {
	p, err := h.Open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	return unix.Listxattr(p.ProcPath(), buf)
}

// GetXattr returns one attribute of h, and whether it is there.
func (h *Handle) GetXattr(name string) (string, bool, error) {
	if h.attrs != nil {
		v, found := h.attrs[name]
		return v, found, nil
	}
	for size := 256; ; size = 64 << 10 {
		buf := make([]byte, size)
		n, err := unix.Fgetxattr(int(h.FD), name, buf)
		if err == unix.EACCES && h.opener != nil {
			n, err = h.opener.OwnXattr(h.FD, name, buf)
		}
		switch {
		case err == unix.ERANGE && size < 64<<10:
		case err == unix.ENODATA || h.noXattrs(err) || err == unix.EBADF:
			return "", false, nil
		case err != nil:
			return "", false, err
		default:
			return string(buf[:n]), true, nil
		}
	}
}

// keepXattrs reads all attributes of h, for later, when they cannot be read.
func (h *Handle) keepXattrs() error {
	names, err := h.XattrNames()
	if err != nil {
		return err
	}
	all := map[string]string{}
	for _, name := range names {
		v, found, err := h.GetXattr(name)
		if err != nil {
			return err
		}
		if found {
			all[name] = v
		}
	}
	h.attrs = all
	return nil
}

// Xattrs returns the attributes of h that belong to the project, also with ErrLayer.
func (h *Handle) Xattrs() (Xattrs, error) {
	names, err := h.XattrNames()
	if err != nil {
		return nil, err
	}
	return h.xattrs(names)
}

// xattrs is Xattrs where the names of all attributes are known.
func (h *Handle) xattrs(names []string) (Xattrs, error) {
	var set Xattrs
	_, layer := traitsOf(names)
	for _, name := range names {
		if !WantedXattr(name) {
			continue
		}
		v, found, err := h.GetXattr(name)
		if err != nil {
			return nil, err
		}
		if found {
			if set == nil {
				set = Xattrs{}
			}
			set[name] = v
		}
	}
	return set, layer
}

// SetXattrs makes want the attributes of h that belong to the project. It also removes
// others, because a new file may have inherited an access control list.
func (h *Handle) SetXattrs(want Xattrs) error { return h.setXattrs(want, false) }

// GiveXattrs is SetXattrs for an object of a project. If its file system has no users' attributes, it gets none, as
// with cp(1). Access control lists are not left out, because without one others could have more access.
func (h *Handle) GiveXattrs(want Xattrs) error { return h.setXattrs(want, true) }

// Taken returns those of the attributes that the file system of h can have: GiveXattrs leaves out the others.
func (h *Handle) Taken(x Xattrs) Xattrs {
	_, err := unix.Getxattr(h.ProcPath(), "user.nsrun", nil)
	if !h.noXattrs(err) {
		return x
	}
	taken := maps.Clone(x)
	maps.DeleteFunc(taken, func(name, _ string) bool { return strings.HasPrefix(name, "user.") })
	return taken
}

func (h *Handle) setXattrs(want Xattrs, lax bool) error {
	have, err := h.Xattrs()
	if err != nil {
		return err
	}
	// Users' attributes come first: changing them needs write permission, which an access
	// control list may take from the owner.
	err = h.unlocked(func() error { return h.changeXattrs(have, want, true) })
	if err != nil && !(lax && h.noXattrs(err)) {
		return err
	}
	return h.changeXattrs(have, want, false)
}

// unlocked calls do. If that fails because the caller, as owner, may not write to h, it calls
// do again with that permission.
func (h *Handle) unlocked(do func() error) error {
	err := do()
	if err != unix.EACCES || IsRoot() {
		return err
	}
	st, e := h.Stat()
	if e != nil || !st.Owned() || st.Perm()&0o200 != 0 {
		return err
	}
	if err := h.Chmod(st.Perm() | 0o200); err != nil {
		return err
	}
	err = do()
	if e := h.Chmod(st.Perm()); err == nil {
		err = e
	}
	return err
}

// changeXattrs changes the attributes have to want: either those of users, or the others.
func (h *Handle) changeXattrs(have, want Xattrs, users bool) error {
	for name := range have {
		if _, ok := want[name]; ok || strings.HasPrefix(name, "user.") != users {
			continue
		}
		err := unix.Fremovexattr(int(h.FD), name)
		if err != nil && err != unix.ENODATA {
			return err
		}
	}
	for name, v := range want {
		if w, ok := have[name]; ok && w == v || strings.HasPrefix(name, "user.") != users {
			continue
		}
		err := unix.Fsetxattr(int(h.FD), name, []byte(v), 0)
		if err != nil {
			return err
		}
	}
	return nil
}

// Raw is x as it is stored.
func (x Xattrs) Raw() map[string][]byte {
	m := make(map[string][]byte, len(x))
	for name, v := range x {
		m[name] = []byte(v)
	}
	return m
}

// Traits say which kinds of attributes an object has.
type Traits struct {
	Project bool // some belong to the project
	Capable bool // it has capabilities
	Origin  bool // it was copied up from the layer below

	// Lists are the attributes that belong to the project, for FIFOs, sockets and device
	// nodes, which have only access control lists. Those of files are read with File.
	Lists Xattrs
}

func traitsOf(names []string) (t Traits, layer error) {
	for _, name := range names {
		switch {
		case name == CapabilityXattr:
			t.Capable = true
		case name == OverlayPrefix+"origin":
			t.Origin = true
		case name == OverlayPrefix+"redirect" || name == OverlayPrefix+"metacopy":
			layer = ErrLayer
		case WantedXattr(name):
			t.Project = true
		}
	}
	return t, layer
}
