//go:build linux

package sys

import (
	"iter"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Openat2 is openat2(2), close-on-exec, repeated when a signal interrupted it or a rename
// somewhere made the kernel unsure (EAGAIN): but not for ever, for somebody who renames. Where it
// is refused the path is opened component by component. Of a file that it makes, the owner has what mode gives the
// owner, whatever the umask is: nsrun opens its files again.
func Openat2(dir int, name string, flags, mode, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: resolve}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, name, &how)
		if openat2Call.refused(err) {
			var f FD
			f, err = open2(dir, name, flags, mode, resolve)
			fd = int(f)
		}
		switch {
		case err == nil && flags&unix.O_CREAT != 0:
			if err = ownerMay(fd, uint32(mode)&0o700); err != nil {
				unix.Close(fd)
				return -1, err
			}
			return fd, nil
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < 100 && flags&unix.O_NONBLOCK == 0:
		default:
			return -1, err
		}
	}
}

// ownerMay gives the owner of what fd is open on the permissions that are missing of these.
func ownerMay(fd int, perm uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&perm == perm {
		return err
	}
	return unix.Fchmod(fd, st.Mode&0o7777|perm)
}

// OwnFile opens or makes the file name of the caller's own, in a directory that is held open: no link, and without
// waiting.
func OwnFile(dir FD, name string, flags int) (*os.File, error) {
	mode := uint64(0)
	if flags&unix.O_CREAT != 0 { // openat2(2) refuses a mode without it
		mode = 0o600
	}
	fd, err := Openat2(int(dir), name, uint64(flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY), mode,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Names lists the directory that fd is open on, unsorted, without "." and "..". buf is room for the kernel's answers.
func Names(fd int, buf []byte) ([]string, error) { return SomeNames(fd, buf, math.MaxInt) }

// SomeNames is Names for a directory that can have any number of names: where there are more than most, it stops, and
// returns more than most, but not all.
func SomeNames(fd int, buf []byte, most int) ([]string, error) {
	names := make([]string, 0, 32)
	for some, err := range EachName(fd, buf) {
		if err != nil {
			return nil, err
		}
		if names = append(names, some...); len(names) > most {
			break
		}
	}
	return names, nil
}

// EachName is Names for a directory that can have any number of names: it yields as many at once as the kernel puts
// into buf, which may be used for something else while they are looked at, and holds no more. After an error it ends.
func EachName(fd int, buf []byte) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		_, err := unix.Seek(fd, 0, unix.SEEK_SET)
		for err == nil {
			n := 0
			err = Retry(func() (err error) { n, err = unix.ReadDirent(fd, buf); return err })
			if err != nil {
				break
			}
			if n <= 0 {
				return
			}
			if _, _, names := unix.ParseDirent(buf[:n], -1, nil); len(names) > 0 && !yield(names, nil) {
				return
			}
		}
		yield(nil, err)
	}
}

// TellsTypes reports whether a directory says of what type its entries are. Some file systems do not, such as XFS and
// ext4 without the features ftype and filetype. The kernel lays an overlay over an upper directory there all the same,
// but does not find its own whiteouts: nothing that was emptied can be removed.
func TellsTypes(dir FD) (bool, error) {
	const at = 18 // of the type in a struct linux_dirent64
	fd, err := Openat2(int(dir), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var buf [1 << 10]byte
	n := 0
	err = Retry(func() (err error) { n, err = unix.ReadDirent(fd, buf[:]); return err })
	return n > at && buf[at] != unix.DT_UNKNOWN, err
}

// Mkdir is mkdirat(2) for a directory that its owner uses, whatever the umask keeps from others: some scripts set one
// of 0177, for files.
func Mkdir(dir int, name string, perm uint32) error {
	if err := unix.Mkdirat(dir, name, perm); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o700 == 0o700 {
		return err
	}
	return unix.Fchmodat(dir, name, st.Mode&0o7777|0o700, 0)
}

func MkdirAll(path string, perm uint32) error {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if err == unix.ENOENT {
		if parent := filepath.Dir(path); parent != path {
			if err := MkdirAll(parent, perm); err != nil {
				return err
			}
		}
		if err = Mkdir(unix.AT_FDCWD, path, perm); err == nil {
			return nil
		}
		if err == unix.EEXIST { // somebody was quicker, or it is a link to nothing
			err = unix.Stat(path, &st)
		}
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// Chmod changes the mode of what fd is open on, which may be an O_PATH descriptor.
func Chmod(fd int, mode uint32) error {
	err := Retry(func() error { return unix.Fchmod(fd, mode) })
	if err != unix.EBADF {
		return err
	}
	err = unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP || err == unix.EINVAL || err == unix.EPERM || err == unix.EACCES {
		// Before Linux 6.6, and behind some filters, only this way is open.
		err = unix.Chmod(ProcPath(fd), mode)
	}
	return err
}

// SetTimes sets the access time and the modification time of what fd is open on, which may be an O_PATH descriptor.
func SetTimes(fd int, times []unix.Timespec) error {
	err := unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		// AT_EMPTY_PATH came with Linux 5.8 and is not known to every sandbox.
		err = unix.UtimesNanoAt(unix.AT_FDCWD, ProcPath(fd), times, 0)
	}
	return err
}
