//go:build linux

package features

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
)

// entry is a row of the table. Its Feature has no Status and no Why.
type entry struct {
	Feature
	source   string                 // of Since: a manual page, or a commit of the kernel
	on       Name                   // a feature without which it is not tried; empty: none
	try      func() error           // returns nil if it is there
	thorough func() error           // try, where that cannot tell all: what takes a process of its own; nil: there is no more to tell
	remedy   func(err error) string // what can be done about that error; nil: Remedy
	calls    []systemCall           // that try makes in this process, and that a filter may know
}

// table has all features whose lack a user can notice. It omits calls without which nsrun is only a little slower
// (listxattrat, PIDFD_THREAD, …).
var table = [...]entry{
	{Feature: Feature{Name: CommonCalls, For: "all of nsrun", Required: true,
		Needs: callAllowed, Lost: "no command can be run in a sandbox"},
		try: tryCommonCalls, remedy: filterRemedy},
	{Feature: Feature{Name: Proc, For: "all of nsrun", Required: true,
		Needs: "a /proc of this PID namespace", Lost: "no command can be run in a sandbox", Remedy: "mount -t proc proc /proc"},
		on: CommonCalls, try: tryProc},
	{Feature: Feature{Name: UserNamespaces, For: "a sandbox without privileges", Required: true,
		Since: "3.8", Needs: "the permission to make user namespaces", Lost: "no command can be run in a sandbox",
		Remedy: "sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), kernel.unprivileged_userns_clone=1 (Debian), " +
			"user.max_user_namespaces=10000, or run nsrun outside of a container or chroot"},
		source: "user_namespaces(7)", on: Proc, try: tryUser, remedy: userRemedy},
	{Feature: Feature{Name: MountNamespaces, For: "a file system of its own", Required: true,
		Since: "3.8", Needs: "a seccomp filter and an LSM that allow mount(2) and chroot(2)", Lost: "no command can be run in a sandbox",
		Remedy: "start the container with fewer restrictions: " + NamespacesRemedy},
		source: "user_namespaces(7)", on: UserNamespaces, try: tryMount, remedy: mountRemedy},
	{Feature: Feature{Name: NetworkNamespaces, For: "no network", Required: true,
		Since: "3.8", Needs: "CONFIG_NET_NS", Lost: "no command can be run without the host's network",
		Remedy: "sysctl user.max_net_namespaces=10000"},
		source: "user_namespaces(7)", on: UserNamespaces, try: func() error { return unshares(unix.CLONE_NEWNET) }},
	{Feature: Feature{Name: ProcessNamespaces, For: "ending all processes of a command", Required: true,
		Since: "3.8", Needs: "CONFIG_PID_NS", Lost: "no command can be run in a sandbox",
		Remedy: morePIDs},
		source: "user_namespaces(7)", on: MountNamespaces, try: func() error {
			return inside(func(b *prog.Builder) { b.Call(prog.Clone, prog.Int(unix.CLONE_NEWPID)) }, nil)
		}},
	{Feature: Feature{Name: OwnProc, For: "a /proc that shows only a command's own processes",
		Since: "3.8", Needs: "a /proc over which nothing is mounted",
		Lost: "commands have the existing /proc, read-only: they see which other processes there are, " +
			"with their arguments, and cannot look into them",
		Remedy: unmask},
		source: "user_namespaces(7)", on: ProcessNamespaces, try: func() error { return inside(pidProc, nil) }, remedy: procRemedy},
	{Feature: Feature{Name: IPCNamespaces, For: "System V IPC and host name of its own", Required: true,
		Since: "3.8", Needs: "CONFIG_IPC_NS and CONFIG_UTS_NS", Lost: "no command can be run in a sandbox",
		Remedy: "sysctl user.max_ipc_namespaces=10000 user.max_uts_namespaces=10000"},
		source: "user_namespaces(7)", on: UserNamespaces, try: func() error { return unshares(unix.CLONE_NEWIPC | unix.CLONE_NEWUTS) }},
	{Feature: Feature{Name: CgroupNamespaces, For: "hiding the host's cgroups",
		Since: "4.6", Needs: "CONFIG_CGROUPS", Lost: "commands with the preset strict or workspace-root run without namespaces",
		Remedy: "sysctl user.max_cgroup_namespaces=10000"},
		source: "cgroup_namespaces(7)", on: UserNamespaces, try: func() error { return unshares(unix.CLONE_NEWCGROUP) }},
	{Feature: Feature{Name: Openat2, For: "opening paths inside a directory",
		Since: "5.6", Needs: callAllowed, Lost: "paths are opened name by name, which takes longer",
		Remedy: "run nsrun directly, or the outer nsrun with --allow-userns, as an ordinary user"},
		source: "openat2(2)", try: tryOpenat2,
		calls: []systemCall{{"openat2", unix.SYS_OPENAT2}}},
	{Feature: Feature{Name: CloseRange, For: "closing descriptors",
		Since: "5.9", Needs: callAllowed, Lost: "descriptors are closed one by one, which takes longer"},
		source: "close_range(2)", try: func() error { return call(unix.EINVAL, unix.SYS_CLOSE_RANGE, 2, 1, 0) },
		calls: []systemCall{{"close_range", unix.SYS_CLOSE_RANGE}}},
	{Feature: Feature{Name: Statx, For: "creation times of files",
		Since: "4.11", Needs: callAllowed, Lost: "a change in the project from before a command replaced the file may be reported as a conflict"},
		source: "statx(2)", try: tryStatx,
		calls: []systemCall{{"statx", unix.SYS_STATX}}},
	{Feature: Feature{Name: SeccompFilters, For: "refusing dangerous system calls", Required: true,
		Since: "3.17", Needs: "CONFIG_SECCOMP_FILTER", Lost: "no command can be run in a sandbox"},
		source: "seccomp(2)", try: trySeccomp},
	{Feature: Feature{Name: DirectCalls, For: "all of nsrun", Required: true,
		Needs: "to be executed by the kernel, not by an emulator of system calls", Lost: "no command can be run in a sandbox"},
		try: tryDirect, remedy: directRemedy},
	{Feature: Feature{Name: Capset, For: "commands without capabilities", Required: true,
		Since: "2.2", Needs: callAllowed, Lost: "no command can be run in a sandbox"},
		source: "capset(2)", try: func() error { return call(unix.EFAULT, unix.SYS_CAPSET, badAddr, badAddr) }, remedy: filterRemedy,
		calls: []systemCall{{"capset", unix.SYS_CAPSET}}},
	{Feature: Feature{Name: FileCalls, For: "sessions",
		Needs: callAllowed, Lost: "sessions cannot be made, committed or recorded"},
		try: tryFileCalls, remedy: filterRemedy},
	{Feature: Feature{Name: Devices, For: "the devices of a sandbox", Required: true,
		Needs: "a /dev with null, zero, full, random, urandom and tty", Lost: "no command can be run in a sandbox, except by --backend landlock"},
		try: tryDevices, remedy: devicesRemedy},
	{Feature: Feature{Name: Renameat2, For: "sessions",
		Since: "3.15", Needs: callAllowed, Lost: "during a commit, a changed file is missing for a moment"},
		source: "renameat2(2)", try: func() error { return call(unix.EINVAL, unix.SYS_RENAMEAT2, badFD, 0, badFD, 0, badFlags) },
		calls: []systemCall{{"renameat2", unix.SYS_RENAMEAT2}}},
	{Feature: Feature{Name: Overlay, For: "keeping changes apart",
		Since: "5.11", Needs: "CONFIG_OVERLAY_FS", Lost: "a session is a copy of the project (--engine copy), which takes time and space",
		Remedy: loadOverlay},
		source: "commit 459c7c565ac3", on: MountNamespaces, try: func() error { return inside(overlay, nil) }, remedy: overlayRemedy},
	{Feature: Feature{Name: TmpfsAttributes, For: "keeping changes apart in memory",
		Since: "6.6", Needs: "CONFIG_TMPFS_XATTR",
		Lost: "--engine tmpfs; where the state directory's file system has no attributes (FUSE, vfat) a session is a copy of the project"},
		source: "commit 2daf18a7884d", on: MountNamespaces, try: tryTmpfsAttributes},
	{Feature: Feature{Name: NewMountCalls, For: "starting fast",
		Since: "5.12", Needs: "a seccomp filter that allows open_tree, move_mount, fsopen and mount_setattr",
		Lost: "mount(2) is used: starts take longer, mounts below a directory are made read-only one by one, and root has no --engine tmpfs"},
		source: "mount_setattr(2)", try: tryNewMounts, thorough: func() error { return inside(mountCalls, nil) }, remedy: newMountsRemedy,
		calls: []systemCall{{"mount_setattr", unix.SYS_MOUNT_SETATTR}, {"open_tree", unix.SYS_OPEN_TREE}, {"move_mount", unix.SYS_MOVE_MOUNT}, {"fsopen", unix.SYS_FSOPEN}, {"fsconfig", unix.SYS_FSCONFIG}, {"fsmount", unix.SYS_FSMOUNT}}},
	{Feature: Feature{Name: Clone3, For: "starting in a cgroup",
		Since: "5.7", Needs: callAllowed, Lost: "the broker enforces network rules for root too; the rest is done by clone(2)"},
		source: "clone(2), CLONE_INTO_CGROUP", try: func() error { return call(unix.EINVAL, unix.SYS_CLONE3, 0, 0) },
		calls: []systemCall{{"clone3", unix.SYS_CLONE3}}},
	{Feature: Feature{Name: SessionKeys, For: "keeping the caller's keys outside",
		Since: "2.6.10", Needs: "CONFIG_KEYS", Lost: "commands without nsrun run's seccomp filter can use the caller's session keyring"},
		source: "keyctl(2)", try: tryKeys,
		calls: []systemCall{{"keyctl", unix.SYS_KEYCTL}}},
	{Feature: Feature{Name: LandlockScopes, For: "closing abstract sockets when the host's network is shared",
		Since: "6.12", Needs: "landlock among the kernel's lsm= parameter",
		Lost: "--net host needs --allow-unix @ as well, and the broker enforces network rules for root too"},
		source: "commit 21d52e295ad2", try: func() error { return landlock(6, "close abstract sockets") }, remedy: refusedRemedy,
		calls: []systemCall{{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET}}},
	{Feature: Feature{Name: BPF, For: "network rules by the kernel",
		Since: "5.18", Needs: "root (CAP_BPF, CAP_NET_ADMIN and a cgroup of one's own)", Lost: "the broker enforces network rules"},
		source: "commit b44123b4a3dc", try: tryBPF,
		calls: []systemCall{{"bpf", unix.SYS_BPF}}},
	{Feature: Feature{Name: CgroupV2, For: "a cgroup for each command with rules",
		Since: "4.5", Needs: "the cgroup v2 file system, mounted or to be mounted by root", Lost: "the broker enforces network rules",
		Remedy: "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with systemd.unified_cgroup_hierarchy=1"},
		source: "cgroups(7)", try: tryCgroup2,
		calls: []systemCall{{"fsopen", unix.SYS_FSOPEN}}},
	{Feature: Feature{Name: CgroupControllers, For: "limits on memory, processes and processors",
		Since: "4.15", Needs: "root, a cgroup that was delegated to this user, or systemd's manager of the user's services", Lost: "--memory and --cpus are refused, and so is --pids for root",
		Remedy: delegateRemedy},
		source: "cgroups(7)", try: tryControllers, remedy: func(error) string { return controllersRemedy("/", unix.Geteuid() == 0) }},
	{Feature: Feature{Name: ProcessCounts, For: "a process limit without cgroups",
		Since: "5.14", Needs: "a new user namespace", Lost: "where no cgroup enforces it, --pids is refused"},
		source: "commit 21d1c5e386bc", on: UserNamespaces, try: tryProcessCounts},
	{Feature: Feature{Name: SeccompNotification, For: "network rules by the broker, and renaming directories",
		Since: "5.14", Needs: "CONFIG_SECCOMP_FILTER",
		Lost: "network rules, except root's where the kernel enforces them; renaming directories of the project (EXDEV)"},
		source: "commits 0ae71c7720e3 and e8b9eab99232", try: tryNotification, remedy: refusedRemedy,
		calls: []systemCall{{"seccomp", unix.SYS_SECCOMP}}},
	{Feature: Feature{Name: PidfdGetfd, For: "access of the broker to commands' sockets",
		Since: "5.6", Needs: callAllowed, Lost: "network rules, except root's where the kernel enforces them",
		Remedy: "docker run --cap-add SYS_PTRACE, or podman run --cap-add SYS_PTRACE"},
		source: "pidfd_getfd(2)", try: func() error { return call(unix.EBADF, unix.SYS_PIDFD_GETFD, badFD, 0, 0) },
		calls: []systemCall{{"pidfd_getfd", unix.SYS_PIDFD_GETFD}}},
	{Feature: Feature{Name: PidfdOpen, For: "access of the broker to commands' processes",
		Since: "5.3", Needs: callAllowed, Lost: "network rules, except root's where the kernel enforces them",
		Remedy: "docker run --security-opt seccomp=unconfined, or podman run --security-opt seccomp=unconfined"},
		source: "pidfd_open(2)", try: func() error { return call(unix.EINVAL, unix.SYS_PIDFD_OPEN, badFD, 0) },
		calls: []systemCall{{"pidfd_open", unix.SYS_PIDFD_OPEN}}},
	{Feature: Feature{Name: Kcmp, For: "sockets that the broker exchanges",
		Since: "3.5", Needs: "CONFIG_KCMP with a seccomp filter that allows it",
		Lost: "the broker looks in /proc for sockets that it exchanges, which takes longer"},
		source: "kcmp(2)", try: tryKcmp,
		calls: []systemCall{{"kcmp", unix.SYS_KCMP}}},
	{Feature: Feature{Name: LockedLayers, For: "user namespaces of commands",
		Since: "5.14", Needs: callAllowed, Lost: "--allow-userns: an overlay that the command makes could show what is hidden below a mount"},
		source: "commit 427215d85e8d", try: tryCookies},
	{Feature: Feature{Name: KillableCalls, For: "network calls that no signal handler interrupts, and hints from error messages",
		Since: "5.19", Needs: "CONFIG_SECCOMP_FILTER", Lost: "a signal handler of a command interrupts every network call that the broker answers, and \"nsrun run\" does not read error messages for hints"},
		source: "commit c2aa2dfef243", try: tryKillable,
		calls: []systemCall{{"seccomp", unix.SYS_SECCOMP}}},
	{Feature: Feature{Name: LandlockTCP, For: "unix sockets that the kernel connects while the broker enforces rules",
		Since: "6.7", Needs: "landlock among the kernel's lsm= parameter",
		Lost: "with rules the broker connects a command's unix sockets: servers see the broker as the client (SO_PEERCRED)"},
		source: "commit fff69fb03dde", try: func() error { return landlock(4, "restrict TCP connections") }, remedy: refusedRemedy,
		calls: []systemCall{{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET}}},
	{Feature: Feature{Name: Fanotify, For: "watching, with the pid of the writer",
		Since: "5.17", Needs: "root", Lost: "inotify watches: one watch for each directory, and no pid"},
		source: "fanotify_mark(2), FAN_RENAME", try: tryFanotify,
		calls: []systemCall{{"fanotify_init", unix.SYS_FANOTIFY_INIT}, {"fanotify_mark", unix.SYS_FANOTIFY_MARK}}},
}

const (
	callAllowed    = "a seccomp filter that allows it"
	loadOverlay    = "modprobe overlay, as root"
	delegateRemedy = "sudo nsrun doctor --fix, and log in again"
	moreMounts     = "sysctl user.max_mnt_namespaces=10000"
	morePIDs       = "sysctl user.max_pid_namespaces=10000"
	unmask         = "docker run --security-opt systempaths=unconfined, podman run --security-opt unmask=ALL, " +
		"or procMount: Unmasked in Kubernetes' securityContext"
)

// tryMount also makes the other calls that put a command into its file system. The filter of a container without
// capabilities may refuse chroot(2).
func tryMount() error {
	return inside(func(b *prog.Builder) {
		tmpfs(b)
		b.Call(prog.SysSymlinkat, b.String("."), prog.AtCwd, b.String(place+"/link"))
		b.Call(prog.SysMknodat, prog.AtCwd, b.String(place+"/file"), prog.Int(unix.S_IFREG), prog.Int(0))
		b.Call(prog.SysMount, b.String("tmpfs"), b.String(place), b.String("tmpfs"), prog.Int(0), prog.Null)
		b.Call(prog.SysUmount2, b.String(place), prog.Int(unix.MNT_DETACH))
		b.Call(prog.SysChdir, b.String(place))
		b.Call(prog.SysPivotRoot, b.String("."), b.String(".")).Tolerate(unix.EINVAL, unix.EBUSY) // where / cannot be exchanged
		root := b.Slot()
		b.Call(prog.SysOpenat, prog.AtCwd, b.String("/"), b.Open(prog.Directory|prog.CloseOnExec), prog.Int(0)).To(root)
		b.Call(prog.SysFchdir, root.Arg())
		b.Call(prog.SysChroot, b.String("/"))
	}, nil)
}
