//go:build linux

package attempts

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// A refusal is a system call that filters refuse.
type refusal struct {
	nr     int32
	name   string
	anyone bool
}

// refusedCalls are the names of calls that filters refuse, and whether anyone may make them outside a sandbox.
var refusedCalls = [...]refusal{
	{unix.SYS_MOUNT, "mount", false}, {unix.SYS_UMOUNT2, "umount2", false}, {unix.SYS_PIVOT_ROOT, "pivot_root", false},
	{unix.SYS_OPEN_TREE, "open_tree", false}, {unix.SYS_MOVE_MOUNT, "move_mount", false}, {unix.SYS_FSOPEN, "fsopen", false},
	{unix.SYS_FSMOUNT, "fsmount", false}, {unix.SYS_FSPICK, "fspick", false}, {unix.SYS_MOUNT_SETATTR, "mount_setattr", false},
	{unix.SYS_SETNS, "setns", false}, {unix.SYS_KEYCTL, "keyctl", true}, {unix.SYS_ADD_KEY, "add_key", true},
	{unix.SYS_REQUEST_KEY, "request_key", true}, {unix.SYS_BPF, "bpf", false}, {unix.SYS_PERF_EVENT_OPEN, "perf_event_open", true},
	{unix.SYS_USERFAULTFD, "userfaultfd", true}, {unix.SYS_INIT_MODULE, "init_module", false},
	{unix.SYS_FINIT_MODULE, "finit_module", false}, {unix.SYS_DELETE_MODULE, "delete_module", false},
	{unix.SYS_REBOOT, "reboot", false}, {unix.SYS_SWAPON, "swapon", false}, {unix.SYS_SWAPOFF, "swapoff", false},
	{unix.SYS_ACCT, "acct", false}, {unix.SYS_QUOTACTL, "quotactl", false}, {unix.SYS_SYSLOG, "syslog", false},
	{unix.SYS_OPEN_BY_HANDLE_AT, "open_by_handle_at", false}, {unix.SYS_SETTIMEOFDAY, "settimeofday", false},
	{unix.SYS_CLOCK_SETTIME, "clock_settime", false}, {unix.SYS_CHROOT, "chroot", false}, {unix.SYS_VHANGUP, "vhangup", false},
	{unix.SYS_IOCTL, "ioctl", true}, {unix.SYS_FCNTL, "fcntl", true}, {unix.SYS_FCHMOD, "fchmod", true},
	{unix.SYS_FCHMODAT, "fchmodat", true}, {unix.SYS_FCHMODAT2, "fchmodat2", true}, {unix.SYS_OPENAT, "openat", true},
	{unix.SYS_MKNODAT, "mknodat", true}, {unix.SYS_CLONE, "clone", false}, {unix.SYS_UNSHARE, "unshare", false},
	{unix.SYS_SOCKET, "socket", true}, {unix.SYS_SOCKETPAIR, "socketpair", true},
	{unix.SYS_IO_URING_SETUP, "io_uring_setup", true}, {unix.SYS_FANOTIFY_INIT, "fanotify_init", true},
	// To ids that the sandbox does not have. Outside it needs privileges, too.
	{unix.SYS_FCHOWN, "fchown", false}, {unix.SYS_FCHOWNAT, "fchownat", false},
}

// refusedCall returns the name of a call, and whether anyone may make it outside a sandbox: namespaces together with a
// user namespace, and all sockets except packet sockets.
func refusedCall(n *notify.Notification) (name string, anyone bool) {
	i := slices.IndexFunc(refusedCalls[:], func(c refusal) bool { return c.nr == n.NR })
	if i < 0 && slices.Contains(oldChowns, n.NR) {
		return "chown", false
	}
	if i < 0 {
		return fmt.Sprintf("system call %d", n.NR), true
	}
	c := &refusedCalls[i]
	switch {
	case n.NR == unix.SYS_CLONE || n.NR == unix.SYS_UNSHARE:
		return c.name, n.Args[0]&unix.CLONE_NEWUSER != 0
	case n.NR == unix.SYS_FANOTIFY_INIT:
		return c.name, n.Args[0]&unix.FAN_REPORT_FID != 0
	case n.NR == unix.SYS_SOCKET:
		return c.name, n.Args[0] != unix.AF_PACKET
	}
	return c.name, c.anyone
}
