//go:build linux

package sys

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// topDir is FS_TOPDIR_FL, see T in chattr(1).
const topDir = 0x00020000

// Spread has the directories that are made in dir go to different parts of the disk, if that is an ext4 without a
// journal. Such an ext4 does not use an inode again for minutes (recently_deleted in the kernel's fs/ext4/ialloc.c),
// and looks at all that were removed from a part of the disk whenever it makes a file there. Where directories with
// many files come and go, making a file takes up to ten times as long without this. It changes nothing on other file
// systems, or if it cannot tell. dir must be open for reading.
func Spread(dir FD) {
	if !withoutJournal(dir) {
		return
	}
	if flags, err := unix.IoctlGetInt(int(dir), unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(int(dir), unix.FS_IOC_SETFLAGS, flags|topDir)
	}
}

// withoutJournal reports whether a file is on an ext4 that has no journal.
func withoutJournal(file FD) bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(int(file), &fs) != nil || fs.Type != unix.EXT4_SUPER_MAGIC || unix.Fstat(int(file), &st) != nil {
		return false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task"))
	return err == nil && string(task) == "<none>\n"
}
