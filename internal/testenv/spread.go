//go:build linux

package testenv

import "golang.org/x/sys/unix"

// topDir is FS_TOPDIR_FL, see chattr(1).
const topDir = 0x00020000

// spread has directories that are made in dir go to different parts of the disk, if it is ext4. That does not use an
// inode again within minutes, but looks at all that were removed from the same part whenever it makes one: tests, which
// make and remove many files, would spend a tenth of their time on that. Elsewhere it changes nothing.
func spread(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|topDir)
	}
}
