//go:build linux

package tree

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Stat is what this package needs of a struct stat, alike on all architectures.
type Stat struct {
	Mode, UID, GID        uint32
	Dev, Ino, Nlink, Rdev uint64
	Size, Blocks          int64 // bytes; units of 512 bytes
	Mtime                 unix.Timespec
	Ctime                 int64 // nanoseconds since 1970
}

func MakeStat(st *unix.Stat_t) Stat {
	return Stat{
		Mode: st.Mode, UID: st.Uid, GID: st.Gid,
		Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), Rdev: uint64(st.Rdev),
		Size: st.Size, Blocks: st.Blocks,
		Mtime: st.Mtim, Ctime: st.Ctim.Nano(),
	}
}

func (s Stat) Typ() uint32  { return s.Mode & unix.S_IFMT }
func (s Stat) Perm() uint32 { return s.Mode & 0o7777 }
func (s Stat) IsDir() bool  { return s.Typ() == unix.S_IFDIR }
func (s Stat) IsReg() bool  { return s.Typ() == unix.S_IFREG }

// IsWhiteout reports whether s is overlayfs' mark of a deleted name.
func (s Stat) IsWhiteout() bool { return s.Typ() == unix.S_IFCHR && s.Rdev == 0 }

// Same reports whether t is the object s, with the content it had: used to see
// whether something was swapped or written in between. The ctime is left out
// since renaming an object changes it.
func (s Stat) Same(t Stat) bool {
	return s.Ino == t.Ino && s.Dev == t.Dev && s.Typ() == t.Typ() && s.Mtime == t.Mtime &&
		(s.IsDir() || s.Size == t.Size)
}

func (s Stat) FileMode() fs.FileMode {
	m := fs.FileMode(s.Mode & 0o777)
	switch s.Typ() {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	}
	if s.Mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if s.Mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if s.Mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// IsRoot reports whether the caller reads everything whatever its mode.
func IsRoot() bool { return os.Geteuid() == 0 }

// Owned reports whether the caller may change the mode of s although it is
// denied access to it.
func (s Stat) Owned() bool { return int(s.UID) == os.Geteuid() }

// OrMoved is the error of a comparison that failed, or that found a difference.
func OrMoved(err error) error {
	if err == nil {
		return ErrMoved
	}
	return err
}

// Stat wraps fstat(2).
func (h *Handle) Stat() (Stat, error) {
	var st unix.Stat_t
	if err := sys.Retry(func() error { return unix.Fstat(int(h.FD), &st) }); err != nil {
		return Stat{}, err
	}
	return MakeStat(&st), nil
}

// Lstat looks at one name in the directory h; name holds no slash.
func (h *Handle) Lstat(name string) (Stat, error) {
	// A walk asks this twice for each name: nothing is to be allocated for it.
	var buf [256]byte
	p, err := zeroed(&buf, name)
	if err != nil {
		return Stat{}, err
	}
	for {
		var st unix.Stat_t
		_, _, e := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(h.FD), uintptr(unsafe.Pointer(p)),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, 0)
		switch e {
		case 0:
			return MakeStat(&st), nil
		case unix.EINTR:
		default:
			return Stat{}, e
		}
	}
}

// zeroed returns a name with a zero byte behind it: in buf, where it is as short as nearly
// all are.
func zeroed(buf *[256]byte, name string) (*byte, error) {
	if len(name) >= len(buf) || strings.IndexByte(name, 0) >= 0 {
		return unix.BytePtrFromString(name)
	}
	buf[copy(buf[:], name)] = 0
	return &buf[0], nil
}

// LstatIf is lstat, where a name that is not there is no error.
func (h *Handle) LstatIf(name string) (st Stat, found bool, err error) {
	st, err = h.Lstat(name)
	if err == unix.ENOENT {
		return Stat{}, false, nil
	}
	return st, err == nil, err
}
