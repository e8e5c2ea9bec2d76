// Package mountprog compiles a mounts.Plan to the operations of a Program that set it up: golden files in testdata show
// them. It imports packages mounts, for the description, and prog, for the operations, and asks the system nothing: what
// it has to know of it stands in [Options].
//
// # Two forms
//
// The first form uses the mount calls of Linux 5.2 to 5.12 (open_tree, move_mount, mount_setattr, fsopen): a tree is
// cloned, made read-only as a whole with one call, and attached to a descriptor of its target. The second, for older
// kernels, uses mount(2), and remounts every mount of a tree one by one, as /proc/self/mountinfo lists them.
//
// In both, a target is looked up once, inside the new root (openat2(2), RESOLVE_IN_ROOT), and used through the
// descriptor from then on: a symbolic link that leads out of the root leads nowhere, and a target that is itself a link
// is refused with ELOOP. Sources are looked up in the sandbox's own copy of the host's mounts.
//
// # Without a Go runtime
//
// With a Builder of fixed size (prog.Room) Compile also runs before the Go runtime has started: see package prerun for
// what code may not do then. The kinds of step for which that holds are listed in function simple; what those reach
// must not allocate.
package mountprog
