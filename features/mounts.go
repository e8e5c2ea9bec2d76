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
	_, _, errno := unix.RawSyscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, ^uintptr(0)>>32, 0, 0, 0)
	return errno == unix.EINVAL
})
