//go:build linux

package nsexec

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/seccomp"
)

// Filter is a seccomp filter: a classic BPF program over struct seccomp_data, see
// seccomp(2). It has 1 to 4096 instructions.
type Filter []unix.SockFilter

// maxFilter is BPF_MAXINSNS of the kernel.
const maxFilter = 4096

// install adds the operation that installs f; with prctl(2), if an earlier filter may allow only that, or does.
func (f Filter) install(b *prog.Builder, byPrctl bool) {
	b.Step("seccomp", "")
	program, _ := f.program(b)
	if byPrctl || byPrctlAlone() {
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_SECCOMP), prog.Int(unix.SECCOMP_MODE_FILTER), program.Arg())
		return
	}
	b.Call(prog.SysSeccomp, prog.Int(unix.SECCOMP_SET_MODE_FILTER), prog.Int(0), program.Arg())
}

// seccompEnds is features.SeccompEnds. Nil: the runtime has not started, and nothing can be asked.
var seccompEnds func() bool

func init() { seccompEnds = features.SeccompEnds }

// byPrctlAlone reports whether only prctl(2) can install filters.
func byPrctlAlone() bool { return seccompEnds != nil && seccompEnds() }

// program adds f as a struct sock_fprog, and returns the address of its instructions.
func (f Filter) program(b *prog.Builder) (fprog, insns prog.Ptr) {
	code := make([]byte, 0, 8*len(f))
	for _, i := range f {
		code = append(code, byte(i.Code), byte(i.Code>>8), i.Jt, i.Jf, byte(i.K), byte(i.K>>8), byte(i.K>>16), byte(i.K>>24))
	}
	insns = b.Data(code)
	fprog = b.Words(uint64(len(f)), 0) // struct sock_fprog
	b.Relocate(fprog, 1, insns.Arg())
	return fprog, insns
}

// DefaultFilter refuses system calls that a command in a sandbox does not need, or that have been a way out of
// sandboxes: more namespaces and mounts, io_uring (which makes system calls that no filter sees), kernel keys, BPF,
// perf events, userfaultfd, kernel modules, clocks, leases, set-user-id bits, pushing input into the terminal (TIOCSTI,
// TIOCLINUX), what makes the terminal useless for the caller (its line discipline, tcflow(3) with TCOOFF, the modes and
// fonts of the Linux console), priorities of PID 1 and of process groups, sockets of families other than unix, IP and
// netlink, and system calls of another architecture or newer than Linux 6.18. A refused call fails with EPERM, or with
// ENOSYS if programs then use another call. Changing the limit of core dumps has no effect.
var DefaultFilter = sync.OnceValue(func() Filter { return denyFilter(shape{arch: seccomp.Arch, x32: seccomp.HasX32}) })

// newNamespacesUnshare are all namespaces that unshare(2) makes.
const newNamespacesUnshare = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// denyFilter is DefaultFilter with options. It is long because it lists the refused calls, in the order in which the
// kernel checks them.
func denyFilter(o shape) Filter {
	var f seccomp.Filter
	f.Begin(o.arch, o.x32)
	f.When(seccomp.AtLeast, firstUnknown, func() { f.Refuse(unix.ENOSYS) })
	denied, unshared := deniedCalls[:], uint32(newNamespacesUnshare)
	switch {
	case o.namespaces:
		denied, unshared = denied[mountCalls:], unix.CLONE_NEWCGROUP|unix.CLONE_NEWTIME
	case o.changeRoot:
		denied = slices.DeleteFunc(slices.Clone(denied), func(nr uint32) bool { return nr == unix.SYS_CHROOT })
	}
	if o.cgroups {
		unshared &^= unix.CLONE_NEWCGROUP
	}
	absent := absentCalls[:]
	if o.openat2 {
		absent = absent[1:]
	}
	for _, d := range [...]struct {
		e   unix.Errno
		nrs []uint32
	}{{unix.EPERM, denied}, {unix.ENOSYS, absent}} {
		for i, nr := range d.nrs {
			f.Add(seccomp.Equal, uint8(len(d.nrs)-i), 0, nr)
		}
		f.Add(seccomp.Jump, 0, 0, 1)
		f.Refuse(d.e)
	}
	// Calls that depend on an argument (on its low half: the kernel ignores the upper half in these calls).
	call := func(nr uint32, check func()) {
		f.When(seccomp.Equal, nr, func() {
			check()
			f.Allow()
		})
	}
	arg := func(nr uint32, n uint32, check func()) {
		call(nr, func() {
			f.Lower(n)
			check()
		})
	}
	deny := func(code uint16, k uint32, e unix.Errno) {
		f.When(code, k, func() { f.Refuse(e) })
	}
	arg(unix.SYS_IOCTL, 1, func() {
		for i, request := range terminalRequests {
			f.Add(seccomp.Equal, uint8(len(terminalRequests)-i), 0, request)
		}
		f.Add(seccomp.Jump, 0, 0, 1)
		f.Refuse(unix.EPERM)
		f.When(seccomp.Equal, unix.TCXONC, func() {
			f.Lower(2)
			deny(seccomp.Equal, tcooff, unix.EPERM)
		})
	})
	// A lease makes other processes that open the file wait.
	arg(unix.SYS_FCNTL, 1, func() { deny(seccomp.Equal, unix.F_SETLEASE, unix.EPERM) })
	// Set-user-id files outlive the sandbox. A group of the command's own is harmless: its files are the caller's.
	setID := uint32(unix.S_ISUID)
	if o.noSetGID {
		setID |= unix.S_ISGID
	}
	arg(unix.SYS_FCHMOD, 1, func() { deny(seccomp.AnyBit, setID, unix.EPERM) })
	for _, nr := range [...]uint32{unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2} {
		arg(nr, 2, func() { deny(seccomp.AnyBit, setID, unix.EPERM) })
	}
	arg(unix.SYS_MKNODAT, 2, func() { deny(seccomp.AnyBit, setID, unix.EPERM) })
	creates := func(nr, flags, mode uint32) {
		arg(nr, flags, func() {
			f.When(seccomp.AnyBit, unix.O_CREAT|tmpfile, func() {
				f.Lower(mode)
				deny(seccomp.AnyBit, setID, unix.EPERM)
			})
		})
	}
	creates(unix.SYS_OPENAT, 2, 3)
	for _, old := range oldCalls {
		switch {
		case old.flags != 0:
			creates(old.nr, old.flags, old.mode)
		default:
			arg(old.nr, old.mode, func() { deny(seccomp.AnyBit, setID, unix.EPERM) })
		}
	}
	// The limit of core dumps stays as it is: with zero, programs that receive core dumps (core(5)) would get them
	// again; only a limit of one disables that. The filter lets calls that set it succeed without effect.
	const ignored = unix.Errno(0)
	arg(unix.SYS_SETRLIMIT, 0, func() { deny(seccomp.Equal, unix.RLIMIT_CORE, ignored) })
	arg(unix.SYS_PRLIMIT64, 1, func() {
		f.Add(seccomp.Equal, 0, 5, unix.RLIMIT_CORE)
		f.Lower(2)
		f.Add(seccomp.Equal, 0, 2, 0)
		f.Upper(2)
		f.Add(seccomp.Equal, 1, 0, 0)
		f.Refuse(ignored)
	})
	for _, c := range slices.Concat(chownCalls[:], becomeCalls[:]) {
		call(c.nr, func() {
			for i := range c.users + c.groups {
				m := o.uid
				if i >= c.users {
					m = o.gid
				}
				if m.Count == 0 {
					continue
				}
				f.Lower(c.first + i)
				f.Add(seccomp.Equal, 3, 0, ^uint32(0)) // which stays what it is
				f.Add(seccomp.AtLeast, 0, 1, m.Inside)
				f.Add(seccomp.AtLeast, 0, 1, m.Inside+m.Count)
				f.Refuse(unix.EPERM)
			}
		})
	}
	// PID 1 enforces the deadline, so it must get processor time when its turn comes. The other forms of the last two
	// calls mean process groups and all processes of a user, PID 1 and the caller's own among them.
	for _, nr := range [...]uint32{unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY} {
		arg(nr, 0, func() { deny(seccomp.Equal, 1, unix.EPERM) })
	}
	for _, c := range [...]struct{ nr, process uint32 }{{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS}, {unix.SYS_IOPRIO_SET, ioprioWhoProcess}} {
		arg(c.nr, 0, func() {
			f.Add(seccomp.Equal, 1, 0, c.process)
			f.Refuse(unix.EPERM)
			f.Lower(1)
			deny(seccomp.Equal, 1, unix.EPERM)
		})
	}
	// CLONE_NEWTIME is part of the exit signal in clone(2)'s flags.
	arg(unix.SYS_CLONE, 0, func() { deny(seccomp.AnyBit, unshared&^unix.CLONE_NEWTIME, unix.EPERM) })
	arg(unix.SYS_UNSHARE, 0, func() { deny(seccomp.AnyBit, unshared, unix.EPERM) })
	for _, nr := range [...]uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		arg(nr, 0, func() {
			families := [...]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
			for i, family := range families {
				f.Add(seccomp.Equal, uint8(len(families)-i), 0, family)
			}
			f.Refuse(unix.EAFNOSUPPORT)
		})
	}
	f.Allow()
	return Filter(f)
}

// firstUnknown is the first system call that came after these lists were made: a new one may be another way to do what
// they refuse, as openat2(2) and clone3(2) were. Programs take it for a kernel without the call. The last one that is
// known came with Linux 6.17.
const firstUnknown = unix.SYS_FILE_SETATTR + 1

// mountCalls is how many of deniedCalls, from the first, are about namespaces and mounts.
const mountCalls = 13

var deniedCalls = [...]uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_SETNS, unix.SYS_CHROOT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON,
	unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SYSLOG,
	unix.SYS_QUOTACTL_FD, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE,
}

// terminalRequests are the requests of ioctl(2) that put input into the terminal, or leave it in a state in which it
// shows nothing, or something else than what is written to it, or in which nobody can switch it. TIOCEXCL is not among
// them: programs for serial lines need it.
var terminalRequests = [...]uint32{
	unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD,
	0x4b3a, 0x4b41, 0x4b45, 0x4b61, 0x4b67, 0x4b68, 0x4b6a, 0x4b6c, 0x4b6d, 0x4b71, 0x4b72, // KDSETMODE, PIO_SCRNMAP, KDSKBMODE, PIO_FONT and others
	0x5602, 0x5605, 0x5606, 0x5607, 0x5608, 0x5609, 0x560a, 0x560b, 0x560c, 0x560f, // VT_SETMODE, VT_RELDISP, VT_ACTIVATE and others
}

// ioprioWhoProcess is IOPRIO_WHO_PROCESS, for which ioprio_set(2) means one process or thread.
const ioprioWhoProcess = 1

// tcooff is the argument of TCXONC that stops output.
const tcooff = 0

// oldCall is a call with a mode argument that newer architectures do not have.
// flags is the argument with O_CREAT, 0 if there is none.
type oldCall struct{ nr, flags, mode uint32 }

// idCall is a call whose arguments, from the first, are some ids of users, and then some of groups.
type idCall struct{ nr, first, users, groups uint32 }

// becomeCalls are those that change the ids of a process.
var becomeCalls = [...]idCall{
	{unix.SYS_SETUID, 0, 1, 0}, {unix.SYS_SETREUID, 0, 2, 0}, {unix.SYS_SETRESUID, 0, 3, 0},
	{unix.SYS_SETGID, 0, 0, 1}, {unix.SYS_SETREGID, 0, 0, 2}, {unix.SYS_SETRESGID, 0, 0, 3},
}

// tmpfile is O_TMPFILE without the bit of O_DIRECTORY, which it includes.
const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY

// absentCalls fail with ENOSYS (the first one not always): libraries then use other calls. The flags of clone3 and the
// mode of openat2 are in memory, where no filter can look.
var absentCalls = [...]uint32{
	unix.SYS_OPENAT2, unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}
