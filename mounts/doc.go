// Package mounts describes the file system of a sandbox as an ordered list of
// mounts, checks the list without touching the system, and compiles it to the
// system calls that set it up.
//
//	plan := mounts.Plan{
//		mounts.ROBind("/", "/"),
//		mounts.Dev("/dev"),
//		mounts.Proc("/proc"),
//		mounts.Tmpfs("/tmp"),
//		mounts.Bind("/home/me/src", "/home/me/src"),
//	}
//
// Later steps lie over earlier ones. A Plan without a mount on "/" begins with
// an empty tmpfs there; the empty Plan shows nothing of the host.
//
// # How it is done
//
// Plan.Compile emits one of two forms. The first uses the mount calls of Linux
// 5.2 to 5.12 (open_tree, move_mount, mount_setattr, fsopen): a tree is cloned,
// made read-only as a whole with one call, and attached to a descriptor of its
// target. The second, for older kernels, uses mount(2), and remounts every mount
// of a tree one by one, as /proc/self/mountinfo lists them.
//
// In both, a target is looked up once, inside the new root (openat2(2),
// RESOLVE_IN_ROOT), and used through the descriptor from then on: a symbolic link
// that leads out of the root leads nowhere, and a target that is itself a link is
// refused with ELOOP. Sources are looked up in the sandbox's own copy of the
// host's mounts.
package mounts
