// Package mountprog compiles a mounts.Plan to the operations of a Program that set it up: golden files in testdata show
// them. It imports packages mounts, for the description, and prog, for the operations, and asks the system nothing:
// [Options] has what it needs to know about the system.
//
// # Three forms
//
//   - In place (inplace.go), if the Plan begins with the host's root, has no step that needs a new root (an overlay, a
//     blocked path, another mount at /), and there is a new user namespace: the copy of the host's mounts in the new
//     mount namespace becomes the sandbox's root. Sources and devices are opened first, then one call makes everything
//     read-only. There is no pivot_root(2) and no unmount.
//   - A new root: the first mount is attached over the old root, the others inside it; pivot_root(2) and one unmount
//     follow. Without a new user namespace all this begins at the mount namespace's root, so that a command cannot
//     climb out of a chroot.
//   - Classic (classic.go), for kernels before 5.12: like a new root, with mount(2). It remounts every mount of a tree
//     one by one, as /proc/self/mountinfo lists them.
//
// The first two use the mount calls of Linux 5.2 to 5.12 (open_tree, move_mount, mount_setattr, fsopen): a tree is
// cloned, made read-only as a whole with one call, and attached to a descriptor of its target.
//
// In all of them a target is looked up once, inside the new root (openat2(2), RESOLVE_IN_ROOT), and used through the
// descriptor from then on: a symbolic link that leads out of the root leads nowhere, and a target that is itself a link
// is refused with ELOOP. Sources are looked up in the sandbox's own copy of the host's mounts.
//
// # Without a Go runtime
//
// With a Builder of fixed size (prog.Room) Compile also runs before the Go runtime has started: see package prerun for
// what code may not do then. Function simple lists the kinds of step for which this holds; code that they reach must
// not allocate.
package mountprog
