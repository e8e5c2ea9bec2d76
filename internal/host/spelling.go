//go:build linux

package host

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
)

// A file system can ignore the case of names although the kernel does not: with FUSE, 9p and NFS only the server knows
// that two names are one. The kernel then has an entry for each spelling of a file's name. What is mounted over one of
// them, or marked as deleted in an overlay, does not cover the others. A directory has only one entry.

// OtherSpelling reports whether a file can be opened under another spelling of its name, which nothing covers that is
// mounted over it. plain has the directories whose file systems were found to know all spellings: most files that are
// hidden have few directories.
func OtherSpelling(path string, plain map[string]bool) bool {
	dir, base := filepath.Split(path)
	other := paths.SwapCase(base)
	if other == base || plain[dir] {
		return false
	}
	if oneSpelling(dir) {
		plain[dir] = true
		return false
	}
	n, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	at := sys.FD(n)
	defer at.Close()
	// Both stay open, so that an entry which the kernel has for both has one name.
	var names [2]string
	var stats [2]unix.Stat_t
	for i, name := range [...]string{base, other} {
		n, err := unix.Openat(int(at), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		f := sys.FD(n)
		defer f.Close()
		if unix.Fstat(n, &stats[i]) != nil || stats[i].Mode&unix.S_IFMT == unix.S_IFDIR {
			return false
		}
		if names[i], err = os.Readlink(sys.ProcPath(n)); err != nil {
			return true
		}
	}
	return stats[0].Dev == stats[1].Dev && stats[0].Ino == stats[1].Ino && names[0] != names[1]
}

// oneSpelling reports whether a directory is on a common file system of which the kernel knows all spellings of a name.
func oneSpelling(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC,
		unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC: // of FAT the kernel knows it, and lays no overlay over it
		return true
	}
	return false
}

// IgnoresCase reports whether an overlay over a directory shows what is in it under names that the overlay marks as
// deleted, in another spelling. It tries that with a name in the directory.
func IgnoresCase(dir string) bool {
	if oneSpelling(dir) {
		return false
	}
	n, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	fd := sys.FD(n)
	defer fd.Close()
	const most = 1000
	names, err := sys.SomeNames(n, make([]byte, 16<<10), most)
	if err != nil {
		return false
	}
	for _, name := range names {
		other := paths.SwapCase(name)
		if other == name {
			continue
		}
		var a, b unix.Stat_t
		if unix.Fstatat(n, name, &a, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // it was just removed
		}
		return unix.Fstatat(n, other, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Dev == b.Dev && a.Ino == b.Ino
	}
	return false
}
