//go:build linux

package sys

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// On9P reports whether a file is on a 9p file system, which statfs(2) does not tell: there it returns what the server
// has, for example the type of ext4. If the list of mounts cannot be read, the answer is no.
func On9P(file FD) bool {
	var st unix.Stat_t
	if Retry(func() error { return unix.Fstat(int(file), &st) }) != nil || unix.Major(st.Dev) != 0 { // that of a disk
		return false
	}
	// 9p has no ioctls, and most others have this one. It spares reading the list.
	if _, err := unix.IoctlGetInt(int(file), unix.FS_IOC_GETFLAGS); err == nil {
		return false
	}
	list, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && is9P(list, st.Dev)
}

// is9P reports whether the file system with this device is 9p, by what a mountinfo file lists.
func is9P(mountinfo []byte, dev uint64) bool {
	device := fmt.Appendf(nil, "%d:%d", unix.Major(dev), unix.Minor(dev))
	for line := range bytes.Lines(mountinfo) {
		f := bytes.SplitN(line, []byte(" "), 4)
		if len(f) == 4 && bytes.Equal(f[2], device) && bytes.Contains(f[3], []byte(" - 9p ")) {
			return true
		}
	}
	return false
}
