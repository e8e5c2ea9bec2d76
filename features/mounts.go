//go:build linux

package features

import (
	"sync"

	"golang.org/x/sys/unix"
)

// NewMounts reports whether the kernel has open_tree, move_mount, fsopen and
// mount_setattr, the last of which came with Linux 5.12, and lets this process
// call them: container runtimes filter them.
var NewMounts = sync.OnceValue(func() bool {
	// Flags that do not exist are an EINVAL, before any question of privilege;
	// where the call is missing or refused it is ENOSYS or EPERM.
	const bad = ^uintptr(0) >> 32
	for _, nr := range [...]uintptr{unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE} {
		if _, _, errno := unix.RawSyscall6(nr, ^uintptr(0), 0, bad, 0, 0, 0); errno != unix.EINVAL {
			return false
		}
	}
	// These ask for privilege first: only a missing one can be told.
	for _, c := range [...][5]uintptr{
		{unix.SYS_MOVE_MOUNT, ^uintptr(0), 0, ^uintptr(0), 0},
		{unix.SYS_FSOPEN, 0, bad},
		{unix.SYS_FSCONFIG, ^uintptr(0), bad},
		{unix.SYS_FSMOUNT, ^uintptr(0), bad},
	} {
		if _, _, errno := unix.RawSyscall6(c[0], c[1], c[2], c[3], c[4], bad, 0); errno == unix.ENOSYS {
			return false
		}
	}
	return true
})
