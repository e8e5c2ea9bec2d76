//go:build linux

package attempts

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// What calls take outside a sandbox (Attempt.Needs). The kernel asks for those with all in the initial user namespace.
const (
	admin    = 1 << unix.CAP_SYS_ADMIN
	allAdmin = admin | sys.Initial
	modules  = 1<<unix.CAP_SYS_MODULE | sys.Initial
	boots    = 1<<unix.CAP_SYS_BOOT | sys.Initial
	clocks   = 1<<unix.CAP_SYS_TIME | sys.Initial
	nice     = 1<<unix.CAP_SYS_NICE | sys.Initial
	anyone   = 0
)

// A refusal is a system call that filters refuse.
type refusal struct {
	nr    int32
	name  string
	needs uint64
}

// refusedCalls are the names of calls that filters refuse, and what they take outside a sandbox.
var refusedCalls = [...]refusal{
	{unix.SYS_MOUNT, "mount", admin}, {unix.SYS_UMOUNT2, "umount2", admin}, {unix.SYS_PIVOT_ROOT, "pivot_root", admin},
	{unix.SYS_OPEN_TREE, "open_tree", admin}, {unix.SYS_OPEN_TREE_ATTR, "open_tree_attr", admin}, {unix.SYS_MOVE_MOUNT, "move_mount", admin},
	{unix.SYS_FSOPEN, "fsopen", admin}, {unix.SYS_FSCONFIG, "fsconfig", admin}, {unix.SYS_FSMOUNT, "fsmount", admin},
	{unix.SYS_FSPICK, "fspick", admin}, {unix.SYS_MOUNT_SETATTR, "mount_setattr", admin},
	{unix.SYS_SETNS, "setns", admin}, {unix.SYS_KEYCTL, "keyctl", anyone}, {unix.SYS_ADD_KEY, "add_key", anyone},
	{unix.SYS_REQUEST_KEY, "request_key", anyone}, {unix.SYS_BPF, "bpf", allAdmin}, {unix.SYS_PERF_EVENT_OPEN, "perf_event_open", anyone},
	{unix.SYS_USERFAULTFD, "userfaultfd", anyone}, {unix.SYS_INIT_MODULE, "init_module", modules},
	{unix.SYS_FINIT_MODULE, "finit_module", modules}, {unix.SYS_DELETE_MODULE, "delete_module", modules},
	{unix.SYS_KEXEC_LOAD, "kexec_load", boots}, {unix.SYS_KEXEC_FILE_LOAD, "kexec_file_load", boots}, {unix.SYS_REBOOT, "reboot", boots},
	{unix.SYS_SWAPON, "swapon", allAdmin}, {unix.SYS_SWAPOFF, "swapoff", allAdmin}, {unix.SYS_ACCT, "acct", 1 << unix.CAP_SYS_PACCT},
	{unix.SYS_QUOTACTL, "quotactl", allAdmin}, {unix.SYS_QUOTACTL_FD, "quotactl_fd", allAdmin}, {unix.SYS_SYSLOG, "syslog", 1<<unix.CAP_SYSLOG | sys.Initial},
	{unix.SYS_OPEN_BY_HANDLE_AT, "open_by_handle_at", 1<<unix.CAP_DAC_READ_SEARCH | sys.Initial},
	{unix.SYS_LOOKUP_DCOOKIE, "lookup_dcookie", allAdmin}, {unix.SYS_SETTIMEOFDAY, "settimeofday", clocks}, {unix.SYS_CLOCK_SETTIME, "clock_settime", clocks},
	{unix.SYS_CHROOT, "chroot", 1 << unix.CAP_SYS_CHROOT}, {unix.SYS_VHANGUP, "vhangup", 1 << unix.CAP_SYS_TTY_CONFIG},
	{unix.SYS_IOCTL, "ioctl", anyone}, {unix.SYS_FCNTL, "fcntl", anyone}, {unix.SYS_FCHMOD, "fchmod", anyone},
	{unix.SYS_FCHMODAT, "fchmodat", anyone}, {unix.SYS_FCHMODAT2, "fchmodat2", anyone}, {unix.SYS_OPENAT, "openat", anyone},
	{unix.SYS_MKNODAT, "mknodat", anyone}, {unix.SYS_CLONE, "clone", admin}, {unix.SYS_UNSHARE, "unshare", admin},
	{unix.SYS_SOCKET, "socket", anyone}, {unix.SYS_SOCKETPAIR, "socketpair", anyone},
	{unix.SYS_IO_URING_SETUP, "io_uring_setup", anyone}, {unix.SYS_FANOTIFY_INIT, "fanotify_init", allAdmin},
	{unix.SYS_SETPRIORITY, "setpriority", anyone}, {unix.SYS_IOPRIO_SET, "ioprio_set", anyone}, // of other processes
	// To ids that the sandbox does not have. Outside it needs privileges, too.
	{unix.SYS_FCHOWN, "fchown", 1 << unix.CAP_CHOWN}, {unix.SYS_FCHOWNAT, "fchownat", 1 << unix.CAP_CHOWN},
	{unix.SYS_SETUID, "setuid", 1 << unix.CAP_SETUID}, {unix.SYS_SETREUID, "setreuid", 1 << unix.CAP_SETUID}, {unix.SYS_SETRESUID, "setresuid", 1 << unix.CAP_SETUID},
	{unix.SYS_SETGID, "setgid", 1 << unix.CAP_SETGID}, {unix.SYS_SETREGID, "setregid", 1 << unix.CAP_SETGID}, {unix.SYS_SETRESGID, "setresgid", 1 << unix.CAP_SETGID},
	// Of PID 1, which is not the user's outside either.
	{unix.SYS_SCHED_SETSCHEDULER, "sched_setscheduler", nice}, {unix.SYS_SCHED_SETPARAM, "sched_setparam", nice},
	{unix.SYS_SCHED_SETATTR, "sched_setattr", nice}, {unix.SYS_SCHED_SETAFFINITY, "sched_setaffinity", nice},
}

// refusedCall returns the name of a call, and what it takes outside a sandbox.
func refusedCall(n *notify.Notification) (name string, needs uint64) {
	for _, list := range [...][]refusal{refusedCalls[:], oldRefusals} {
		if i := slices.IndexFunc(list, func(c refusal) bool { return c.nr == n.NR }); i >= 0 {
			return list[i].name, list[i].needsWith(&n.Args)
		}
	}
	if slices.Contains(oldChowns, n.NR) {
		return "chown", 1 << unix.CAP_CHOWN
	}
	return fmt.Sprintf("number %d", n.NR), anyone
}

// needsWith returns what a call takes outside a sandbox with these arguments.
func (c *refusal) needsWith(args *[6]uint64) uint64 {
	free := false // anyone may make this one
	switch c.nr {
	case unix.SYS_CLONE, unix.SYS_UNSHARE:
		free = args[0]&unix.CLONE_NEWUSER != 0
	case unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET:
		const process = 0 // PRIO_PROCESS, which is 1 for ioprio_set
		if args[0] == process || c.nr == unix.SYS_IOPRIO_SET && args[0] == process+1 {
			return nice // PID 1, as above
		}
	case unix.SYS_FANOTIFY_INIT:
		free = args[0]&unix.FAN_REPORT_FID != 0
	case unix.SYS_SOCKET:
		if args[0] == unix.AF_PACKET {
			return 1 << unix.CAP_NET_RAW
		}
	case unix.SYS_SYSLOG:
		const readAll, size = 3, 10
		free = (args[0] == readAll || args[0] == size) && setting("kernel/dmesg_restrict", 1) == 0
	case unix.SYS_PERF_EVENT_OPEN:
		if setting("kernel/perf_event_paranoid", 0) > 2 { // of Debian: for nobody
			return 1<<unix.CAP_PERFMON | sys.Initial
		}
	case unix.SYS_USERFAULTFD:
		const userMode = 1 // UFFD_USER_MODE_ONLY
		if args[0]&userMode == 0 && setting("vm/unprivileged_userfaultfd", 1) == 0 {
			return 1<<unix.CAP_SYS_PTRACE | sys.Initial
		}
	}
	if free {
		return anyone
	}
	return c.needs
}

// setting returns the number in a file below /proc/sys. missing: there is none.
func setting(name string, missing int) int {
	text, err := os.ReadFile("/proc/sys/" + name)
	n, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		return missing
	}
	return n
}
