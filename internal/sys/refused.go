//go:build linux

package sys

import (
	"cmp"
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// What other system calls do where one is not there, or a container's filter refuses it. A call that is refused (EPERM,
// EACCES) looks like one that this process may not do, so whether it is there is asked with arguments that nobody can
// have.

// A tried call is one that may be refused. The zero state is that nobody has asked.
type tried struct {
	number uintptr
	args   [5]uintptr
	state  atomic.Int32
}

const (
	isThere = 1 + iota
	isRefused
)

// refusal reports whether e is what a system call says that is not there, or that a filter refuses.
func refusal(e syscall.Errno) bool { return e == unix.ENOSYS || e == unix.EPERM || e == unix.EACCES }

const noFD = ^uintptr(0)

var (
	openat2Call   = tried{number: unix.SYS_OPENAT2, args: [5]uintptr{noFD, 0, 0, 0}}
	statxCall     = tried{number: unix.SYS_STATX, args: [5]uintptr{noFD, 0, noFD, 0, 0}}
	renameat2Call = tried{number: unix.SYS_RENAMEAT2, args: [5]uintptr{noFD, 0, noFD, 0, noFD >> 32}}

	faccessat2Call = tried{number: unix.SYS_FACCESSAT2, args: [5]uintptr{noFD, 0, noFD >> 32, noFD >> 32}}
	copyRangeCall  = tried{number: unix.SYS_COPY_FILE_RANGE, args: [5]uintptr{noFD, 0, noFD, 0, 0}}
)

// refused reports whether err is what the call says where it cannot be used at all.
func (c *tried) refused(err error) bool {
	if e, ok := err.(syscall.Errno); !ok || !refusal(e) {
		return false
	}
	if c.state.Load() == 0 {
		state := int32(isThere)
		if _, _, e := syscall.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], 0); refusal(e) {
			state = isRefused
		}
		c.state.Store(state)
	}
	return c.state.Load() == isRefused
}

// Access returns nil if this process may do something with a file, by its effective ids: faccessat2(2). Where that is
// refused, real ids count, which are the same: nsrun does not run with others.
func Access(dir int, name string, mode uint32) error {
	err := Retry(func() error { return unix.Faccessat(dir, name, mode, unix.AT_EACCESS) })
	if !faccessat2Call.refused(err) {
		return err
	}
	return Retry(func() error { return unix.Faccessat(dir, name, mode, 0) })
}

// CopyRangeRefused reports whether err is what copy_file_range(2) says where it cannot be used at all.
func CopyRangeRefused(err error) bool {
	e, ok := errors.AsType[syscall.Errno](err)
	return ok && copyRangeCall.refused(e)
}

// Statx is statx(2), repeated when a signal interrupted it. Where that is refused the result is what fstatat(2) tells,
// and the mount of what is open (an empty name) what /proc does: its mask says what is known.
func Statx(dir int, name string, flags, mask int, st *unix.Statx_t) error {
	err := Retry(func() error { return unix.Statx(dir, name, flags, mask, st) })
	if !statxCall.refused(err) {
		return err
	}
	return statInstead(dir, name, flags, mask, st)
}

func statInstead(dir int, name string, flags, mask int, st *unix.Statx_t) error {
	var old unix.Stat_t
	known := flags & (unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT)
	if err := Retry(func() error { return unix.Fstatat(dir, name, &old, known) }); err != nil {
		return err
	}
	stamp := func(t unix.Timespec) unix.StatxTimestamp {
		return unix.StatxTimestamp{Sec: int64(t.Sec), Nsec: uint32(t.Nsec)}
	}
	*st = unix.Statx_t{
		Mask: unix.STATX_BASIC_STATS, Mode: uint16(old.Mode), Nlink: uint32(old.Nlink), Uid: old.Uid, Gid: old.Gid,
		Ino: old.Ino, Size: uint64(old.Size), Blocks: uint64(old.Blocks), Blksize: uint32(old.Blksize),
		Atime: stamp(old.Atim), Ctime: stamp(old.Ctim), Mtime: stamp(old.Mtim),
		Dev_major: unix.Major(uint64(old.Dev)), Dev_minor: unix.Minor(uint64(old.Dev)),
		Rdev_major: unix.Major(uint64(old.Rdev)), Rdev_minor: unix.Minor(uint64(old.Rdev)),
	}
	if mask&unix.STATX_MNT_ID != 0 {
		if id, ok := mountOf(dir, name, flags); ok {
			st.Mnt_id, st.Mask = id, st.Mask|unix.STATX_MNT_ID
		}
	}
	return nil
}

// Renameat2 is renameat2(2), repeated when a signal interrupted it. Where that is refused flags are an EINVAL, as on
// file systems that have none of them.
func Renameat2(dir int, from string, to int, name string, flags uint) error {
	err := Retry(func() error { return unix.Renameat2(dir, from, to, name, flags) })
	if !renameat2Call.refused(err) {
		return err
	}
	return renameInstead(dir, from, to, name, flags)
}

// RenameNew renames to a name that is free. A file system that cannot do that in one step gets a second name for a file
// first, and of a directory the name is looked at before.
func RenameNew(dir int, from string, to int, name string) error {
	err := Renameat2(dir, from, to, name, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL {
		return err
	}
	err = Retry(func() error { return unix.Linkat(dir, from, to, name, 0) })
	switch err {
	case nil:
		return Retry(func() error { return unix.Unlinkat(dir, from, 0) })
	case unix.EEXIST:
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(to, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != unix.ENOENT {
		return cmp.Or[error](err, unix.EEXIST)
	}
	return Renameat2(dir, from, to, name, 0)
}

func renameInstead(dir int, from string, to int, name string, flags uint) error {
	if flags != 0 {
		return unix.EINVAL
	}
	return Retry(func() error { return unix.Renameat(dir, from, to, name) })
}

// Fsync is fsync(2), repeated when a signal interrupted it. Where that is refused the whole file system is flushed.
func Fsync(fd int) error {
	err := Retry(func() error { return unix.Fsync(fd) })
	if e, ok := err.(syscall.Errno); ok && refusal(e) { // no file system says that
		return Syncfs(fd)
	}
	return err
}

// Syncfs is syncfs(2), repeated when a signal interrupted it. Where that is refused all file systems are flushed, by a
// call that reports no disk errors.
func Syncfs(fd int) error {
	err := Retry(func() error { return unix.Syncfs(fd) })
	if e, ok := err.(syscall.Errno); ok && refusal(e) {
		if _, _, e := syscall.Syscall(unix.SYS_SYNC, 0, 0, 0); e != 0 {
			return e
		}
		return nil
	}
	return err
}

// MemFile is memfd_create(2), close-on-exec. Where that is refused the file is one without a name in the directory for
// temporary files, in another that is in memory, or in the caller's.
func MemFile(name string) (FD, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err == nil {
		return FD(fd), nil
	}
	if e, ok := err.(syscall.Errno); !ok || !refusal(e) {
		return None, err
	}
	for _, dir := range [...]string{os.TempDir(), "/dev/shm", os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("HOME"), "/var/tmp"} {
		if dir == "" {
			continue
		}
		if fd, terr := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); terr == nil {
			return FD(fd), nil
		}
	}
	return None, err
}
