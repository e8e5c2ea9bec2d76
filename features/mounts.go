package features

import (
	"sync"

	"golang.org/x/sys/unix"
)

// NewMounts reports whether the kernel has open_tree, move_mount, fsopen and
// mount_setattr, the last of which came with Linux 5.12, and lets this process
// call them: container runtimes filter them.
var NewMounts = sync.OnceValue(func() bool {
	// Without a file to work on, the answer is EBADF from the kernel, ENOSYS or
	// EPERM from who does not have it or refuses it.
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	return err == unix.EBADF
})
