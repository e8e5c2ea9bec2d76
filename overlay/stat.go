//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// stat is what this package needs of a struct stat, alike on all architectures.
type stat struct {
	mode, uid, gid        uint32
	dev, ino, nlink, rdev uint64
	size, blocks          int64 // bytes; units of 512 bytes
	mtime                 unix.Timespec
	ctime                 int64 // nanoseconds since 1970
}

func makeStat(st *unix.Stat_t) stat {
	return stat{
		mode: st.Mode, uid: st.Uid, gid: st.Gid,
		dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), rdev: uint64(st.Rdev),
		size: st.Size, blocks: st.Blocks,
		mtime: st.Mtim, ctime: st.Ctim.Nano(),
	}
}

func (s stat) typ() uint32  { return s.mode & unix.S_IFMT }
func (s stat) perm() uint32 { return s.mode & 0o7777 }
func (s stat) isDir() bool  { return s.typ() == unix.S_IFDIR }
func (s stat) isReg() bool  { return s.typ() == unix.S_IFREG }

// isWhiteout reports whether s is overlayfs' mark of a deleted name.
func (s stat) isWhiteout() bool { return s.typ() == unix.S_IFCHR && s.rdev == 0 }

// same reports whether t is the object s, with the content it had: used to see
// whether something was swapped or written in between. The ctime is left out
// since renaming an object changes it.
func (s stat) same(t stat) bool {
	return s.ino == t.ino && s.dev == t.dev && s.typ() == t.typ() && s.mtime == t.mtime &&
		(s.isDir() || s.size == t.size)
}

func (s stat) fileMode() fs.FileMode {
	m := fs.FileMode(s.mode & 0o777)
	switch s.typ() {
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
	if s.mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if s.mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if s.mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// isRoot reports whether the caller reads everything whatever its mode.
func isRoot() bool { return os.Geteuid() == 0 }

// owned reports whether the caller may change the mode of s although it is
// denied access to it.
func (s stat) owned() bool { return int(s.uid) == os.Geteuid() }

// orMoved is the error of a comparison that failed, or that found a difference.
func orMoved(err error) error {
	if err == nil {
		return errMoved
	}
	return err
}

// stat wraps fstat(2).
func (h *handle) stat() (stat, error) {
	var st unix.Stat_t
	if err := sys.Retry(func() error { return unix.Fstat(int(h.FD), &st) }); err != nil {
		return stat{}, err
	}
	return makeStat(&st), nil
}

// lstat looks at one name in the directory h; name holds no slash.
func (h *handle) lstat(name string) (stat, error) {
	// A walk asks this twice for each name: nothing is to be allocated for it.
	var buf [256]byte
	p, err := zeroed(&buf, name)
	if err != nil {
		return stat{}, err
	}
	for {
		var st unix.Stat_t
		_, _, e := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(h.FD), uintptr(unsafe.Pointer(p)),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, 0)
		switch e {
		case 0:
			return makeStat(&st), nil
		case unix.EINTR:
		default:
			return stat{}, e
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

// lstatIf is lstat, where a name that is not there is no error.
func (h *handle) lstatIf(name string) (st stat, found bool, err error) {
	st, err = h.lstat(name)
	if err == unix.ENOENT {
		return stat{}, false, nil
	}
	return st, err == nil, err
}

// errMoved is wrapped when an object became another one while it was looked at.
var errMoved = errors.New("changed while it was being looked at")
