//go:build linux

package features

import (
	"cmp"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/cgroups"
)

// The probes in this process, which they do not change. Most make a call with an invalid argument: a kernel that has
// the call refuses the argument. No call is repeated after a signal: then the Status is Unknown, and the next caller
// tries again.

const (
	badFlags = ^uintptr(0) >> 32 // flags that do not exist
	badFD    = ^uintptr(0)       // not a descriptor
	badAddr  = ^uintptr(0)       // where nothing can be; at 0 there can be a page (MMAP_PAGE_ZERO of personality(2))
)

// call makes a system call, and returns nil if it succeeds or fails with this error.
func call(fails unix.Errno, number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 && e != fails {
		return e
	}
	return nil
}

// tryControllers looks for controllers in v2 or v1. Without two free descriptors it cannot tell.
func tryControllers() error {
	f, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return err
	}
	missing := cgroups.Missing([]string{"memory", "pids", "cpu"})
	spare, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	_ = f.Close()
	if err != nil {
		return err
	}
	_ = unix.Close(spare)
	if len(missing) > 0 {
		return absentError("no cgroup that this process can make has the controllers " + strings.Join(missing, ", "))
	}
	return nil
}

// controllersRemedy is doctor --fix where that changes something: under systemd, with a cgroup v2 that has the
// controllers. Elsewhere a user gets them as root, or from whoever has them; root may have to change the container.
func controllersRemedy(root string, isRoot bool) string {
	_, err := os.Stat(path.Join(root, "run/systemd/system"))
	controllers, _ := os.ReadFile(path.Join(root, "sys/fs/cgroup/cgroup.controllers"))
	switch {
	case isRoot:
		return ""
	case err == nil && slices.Contains(strings.Fields(string(controllers)), "memory"):
		return delegateRemedy
	}
	return "nsrun as root, or in a cgroup that was delegated to this user"
}

// SeccompEnds reports whether a filter ends processes that call seccomp(2). Then prctl(2) installs filters.
func SeccompEnds() bool { return endedAt([]systemCall{{"seccomp", unix.SYS_SECCOMP}}) != nil }

// trySeccomp tries both calls that install filters.
func trySeccomp() error {
	if !SeccompEnds() && call(unix.EFAULT, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, badAddr) == nil {
		return nil
	}
	return call(unix.EFAULT, unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, badAddr)
}

func tryKillable() error {
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	return call(unix.EFAULT, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, badAddr)
}

func tryKcmp() error {
	const vm = 1 // KCMP_VM
	self := uintptr(os.Getpid())
	return call(0, unix.SYS_KCMP, self, self, vm, 0, 0)
}

func tryKeys() error {
	err := call(unix.ENOKEY, unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, uintptr(badFlags-2), 0) // KEY_SPEC_SESSION_KEYRING
	if err == unix.EKEYREVOKED || err == unix.EKEYEXPIRED {
		return nil
	}
	return err
}

func tryStatx() error {
	var st unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &st)
}

func tryOpenat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err == nil {
		_ = unix.Close(fd)
	}
	// Each kernel that nsrun runs on has the call.
	if mode, _ := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); mode == unix.SECCOMP_MODE_FILTER && statusOf(err) == No {
		return filteredError{err}
	}
	return err
}

// tryNewMounts looks for open_tree, move_mount, fsopen, fsconfig, fsmount, and mount_setattr, which is the newest
// (Linux 5.12). Container runtimes filter them.
func tryNewMounts() error {
	// The kernel checks flags before privileges (EINVAL).
	for _, nr := range [...]uintptr{unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE} {
		switch _, _, e := unix.RawSyscall6(nr, badFD, 0, badFlags, 0, 0, 0); e {
		case unix.EINVAL:
		case 0: // somebody else answered
			return unix.ENOSYS
		default:
			return e
		}
	}
	// These check privileges first, so only ENOSYS is conclusive.
	for _, c := range [...][5]uintptr{
		{unix.SYS_MOVE_MOUNT, badFD, 0, badFD, 0},
		{unix.SYS_FSOPEN, 0, badFlags},
		{unix.SYS_FSCONFIG, badFD, badFlags},
		{unix.SYS_FSMOUNT, badFD, badFlags},
	} {
		if _, _, e := unix.RawSyscall6(c[0], c[1], c[2], c[3], c[4], badFlags, 0); e == unix.ENOSYS {
			return e
		}
	}
	return nil
}

// tryNotification looks for the newest part of what the broker needs, SECCOMP_ADDFD_FLAG_SEND. Cookies of network
// namespaces are as old.
func tryNotification() error {
	var sizes [3]uint16 // struct seccomp_notif_sizes
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes))); e != 0 {
		return e
	}
	return tryCookies()
}

// tryCookies asks for the cookie of a network namespace. It also tells whether the kernel has LockedLayers, which is as
// old, but can be tried only with mounts.
func tryCookies() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err
}

// landlock returns an error unless Landlock's ABI version is at least least, which can do what can says.
func landlock(least uintptr, can string) error {
	abi, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case e != 0:
		return e
	case abi < least:
		return absentError("this kernel's Landlock cannot " + can)
	}
	return nil
}

// tryBPF loads a program that decides about connect(2), and calls the newest helper that netpolicy/cgroup calls.
func tryBPF() error {
	const setRetval = 187 // BPF_FUNC_set_retval
	type instruction struct {
		code byte
		regs byte
		off  int16
		imm  int32
	}
	program := [...]instruction{
		{0xb7, 1, 0, -int32(unix.ECONNREFUSED)}, // r1 = -ECONNREFUSED
		{0x85, 0, 0, setRetval},                 // call
		{0xb7, 0, 0, 0},                         // r0 = 0
		{0x95, 0, 0, 0},                         // exit
	}
	license := [...]byte{'G', 'P', 'L', 0}
	attr := struct { // of BPF_PROG_LOAD
		kind, count             uint32
		instructions            unsafe.Pointer
		license                 unsafe.Pointer
		logLevel, logSize       uint32
		log                     uint64
		kernel, flags           uint32
		name                    [16]byte
		ifindex, expectedAttach uint32
	}{
		kind: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, count: uint32(len(program)),
		instructions: unsafe.Pointer(&program), license: unsafe.Pointer(&license),
		expectedAttach: unix.BPF_CGROUP_INET4_CONNECT,
	}
	fd, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if e != 0 {
		return e
	}
	_ = unix.Close(int(fd))
	return nil
}

// tryCgroup2 looks for a cgroup v2 file system, or tries whether one can be mounted.
func tryCgroup2() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(b), " - cgroup2 ") {
		return nil
	}
	fd, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		if statusOf(err) == No {
			return absentError("no cgroup2 file system is mounted")
		}
		return err
	}
	_ = unix.Close(fd)
	return nil
}

// tryFanotify makes a group like package fanotify's.
func tryFanotify() error {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_REPORT_DFID_NAME_TARGET, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// A mark of a whole file system needs privileges, which the kernel checks before it says that procfs cannot be
	// watched.
	const events = unix.FAN_CREATE | unix.FAN_RENAME | unix.FAN_ONDIR
	err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, events, unix.AT_FDCWD, place)
	if err == unix.EOPNOTSUPP || err == unix.ENODEV || err == unix.EXDEV {
		return nil
	}
	return err
}

// overlayRemedy returns how to load the module, if the kernel knows no overlays. A kernel that refuses them is too old.
func overlayRemedy(err error) string {
	if errors.Is(err, unix.ENODEV) {
		return loadOverlay
	}
	return ""
}

// newMountsRemedy is about the limit on mount namespaces: each mount that is not yet in a tree has one.
func newMountsRemedy(err error) string {
	if errors.Is(err, unix.ENOSPC) {
		return moreMounts
	}
	return ""
}

// procRemedy is about the limit on PID namespaces, or about a container that masks parts of /proc.
func procRemedy(err error) string {
	if errors.Is(err, unix.ENOSPC) {
		return morePIDs
	}
	return unmask
}

// unlimited is what /proc says of a limit on namespaces that nobody has set in this user namespace. If it is reached,
// it is that of a user namespace around this one, as bwrap --disable-userns sets it: from here it cannot be raised.
const unlimited = "2147483647"

// userRemedy says what to do about the setting that refuses user namespaces here.
func userRemedy(err error) string {
	is := func(sysctl, value string) bool {
		b, _ := os.ReadFile("/proc/sys/" + sysctl)
		return strings.TrimSpace(string(b)) == value
	}
	current, _ := os.ReadFile("/proc/self/attr/apparmor/current")
	profile, confined := confinedBy(string(current))
	switch {
	case err == errReadOnlyProc:
		return "mount -o remount,rw /proc"
	case (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS)) && is("user/max_user_namespaces", unlimited):
		return "run nsrun outside of the container or sandbox that it is in, which allows no user namespaces"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return "sysctl user.max_user_namespaces=10000"
	case errors.Is(err, unix.ENOSYS) && Filtered():
		return cmp.Or(UnitRemedy(), "start the container with "+NamespacesRemedy) + ", or a kernel with CONFIG_USER_NS"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "a kernel with CONFIG_USER_NS"
	case os.Geteuid() != 0 && is("kernel/unprivileged_userns_clone", "0"):
		return "sysctl kernel.unprivileged_userns_clone=1"
	case os.Geteuid() != 0 && is("kernel/apparmor_restrict_unprivileged_userns", "1"):
		program, _ := os.Readlink("/proc/self/exe")
		return apparmorRemedy(program)
	case is("user/max_user_namespaces", "0"):
		return "sysctl user.max_user_namespaces=10000"
	case confined && errors.Is(err, unix.EACCES): // a filter or the kernel itself would answer EPERM
		return "add the rule \"userns,\" to AppArmor's profile " + profile + ", or start nsrun outside of that profile"
	}
	if unit() != "" && Filtered() { // RestrictNamespaces=
		return filterRemedy(err)
	}
	return "run nsrun outside of the container or chroot, or start the container with " + NamespacesRemedy
}

// apparmorRemedy is for a program at a path. Its file may be the user's, who could put another program there, so doctor
// makes no profile for any other place than those where nsrun is installed.
func apparmorRemedy(program string) string {
	const orAllow = ", or sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	if name := path.Base(program); name == "nsrun" || name == "nsrun-mcp" {
		return "nsrun doctor --fix as root, which installs AppArmor's profile for /usr/local/bin/nsrun, and nsrun there" + orAllow
	}
	return "a profile of AppArmor with the rule \"userns,\" for " + program + orAllow
}

// confinedBy returns the AppArmor profile in the text of /proc/pid/attr/apparmor/current, if it confines anything
// (aa_getcon(2)).
func confinedBy(text string) (profile string, confined bool) {
	label := strings.TrimRight(text, "\x00\n")
	profile, mode, ok := strings.Cut(label, " (")
	return profile, ok && mode != "unconfined)"
}
