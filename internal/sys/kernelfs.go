//go:build linux

package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrKernelFS says that a directory belongs to the kernel.
var ErrKernelFS = errors.New("it is a file system of the kernel, such as /proc, and holds no files of programs")

// InKernelFS reports whether a directory lies in a file system with which the kernel shows its own state: writing there
// changes the machine, and nothing in it can be copied or kept apart. If statfs(2) fails, the answer is no.
func InKernelFS(dir FD) bool {
	var st unix.Statfs_t
	if Retry(func() error { return unix.Fstatfs(int(dir), &st) }) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.BPF_FS_MAGIC,
		unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.BINFMTFS_MAGIC, unix.NSFS_MAGIC:
		return true
	}
	return false
}
