//go:build linux

package tree

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Stat has the parts of struct stat that this package needs, the same on all architectures.
type Stat struct {
	Mode, UID, GID        uint32
	Touched               bool // by touch(1): see MakeStat
	Dev, Ino, Nlink, Rdev uint64
	Size, Blocks          int64 // bytes; units of 512 bytes
	Mtime                 unix.Timespec
	Ctime                 int64 // nanoseconds since 1970
}

// MakeStat copies a struct stat. Whoever sets times, as touch(1) does, sets that of reading and that of writing, mostly
// to the same. A directory in which a name was made or removed keeps that of reading.
func MakeStat(st *unix.Stat_t) Stat {
	return Stat{
		Mode: st.Mode, UID: st.Uid, GID: st.Gid, Touched: st.Atim == st.Mtim,
		Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), Rdev: uint64(st.Rdev),
		Size: st.Size, Blocks: st.Blocks,
		Mtime: st.Mtim, Ctime: st.Ctim.Nano(),
	}
}

func (s Stat) Typ() uint32  { return s.Mode & unix.S_IFMT }
func (s Stat) Perm() uint32 { return s.Mode & 0o7777 }
func (s Stat) IsDir() bool  { return s.Typ() == unix.S_IFDIR }
func (s Stat) IsReg() bool  { return s.Typ() == unix.S_IFREG }

// IsWhiteout reports whether s is the mark of overlayfs for a deleted name.
func (s Stat) IsWhiteout() bool { return s.Typ() == unix.S_IFCHR && s.Rdev == 0 }

// Same reports whether t is the object s with the same content. It tells whether something was swapped or written
// meanwhile. It ignores the ctime, because renaming an object changes that.
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

// IsRoot reports whether the caller can read everything, whatever its mode.
func IsRoot() bool { return os.Geteuid() == 0 }

// Owned reports whether the caller owns s, and so may change its mode even without access to it.
func (s Stat) Owned() bool { return int(s.UID) == os.Geteuid() }

// OrMoved returns err, or ErrMoved if err is nil: for a comparison that failed or found a difference.
func OrMoved(err error) error {
	if err == nil {
		return ErrMoved
	}
	return err
}
