//go:build linux

package attempts

import (
	"encoding/binary"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// A rootCall is a call that takes root's privileges with certain arguments: fails reports whether it does.
type rootCall struct {
	nr    int32
	name  string
	needs uint64
	fails func(o *Observer, n *notify.Notification) bool
}

// rootCalls are calls that no filter refuses, and for which the processes lack privileges.
var rootCalls = [...]rootCall{
	{unix.SYS_MKNODAT, "mknod", 1<<unix.CAP_MKNOD | sys.Initial, func(_ *Observer, n *notify.Notification) bool { return device(n.Args[2], n.Args[3]) }},
	{unix.SYS_SETPRIORITY, "setpriority", nice, raisesPriority},
	{unix.SYS_SCHED_SETSCHEDULER, "sched_setscheduler", nice, func(_ *Observer, n *notify.Notification) bool {
		return realTime(uint32(n.Args[1]) &^ unix.SCHED_RESET_ON_FORK)
	}},
	{unix.SYS_SCHED_SETATTR, "sched_setattr", nice, func(o *Observer, n *notify.Notification) bool {
		const policy = 4 // in struct sched_attr
		return realTime(o.word(n.PID, n.Args[1]+policy))
	}},
	{unix.SYS_IOPRIO_SET, "ioprio_set", nice, func(_ *Observer, n *notify.Notification) bool { return n.Args[2]>>13 == 1 }}, // IOPRIO_CLASS_RT
	{unix.SYS_SETHOSTNAME, "sethostname", admin, always}, {unix.SYS_SETDOMAINNAME, "setdomainname", admin, always},
	{unix.SYS_FANOTIFY_INIT, "fanotify_init", allAdmin, func(_ *Observer, n *notify.Notification) bool { return n.Args[0]&unix.FAN_REPORT_FID == 0 }},
	{unix.SYS_ADJTIMEX, "adjtimex", clocks, func(o *Observer, n *notify.Notification) bool { return o.word(n.PID, n.Args[0]) != 0 }},
	{unix.SYS_CLOCK_ADJTIME, "clock_adjtime", clocks, func(o *Observer, n *notify.Notification) bool { return o.word(n.PID, n.Args[1]) != 0 }},
	{unix.SYS_MLOCK, "mlock", locks, func(_ *Observer, n *notify.Notification) bool { return locksTooMuch(n, n.Args[1]) }},
	{unix.SYS_MLOCK2, "mlock2", locks, func(_ *Observer, n *notify.Notification) bool { return locksTooMuch(n, n.Args[1]) }},
	{unix.SYS_MLOCKALL, "mlockall", locks, locksAllTooMuch},
	{unix.SYS_SETRLIMIT, "setrlimit", 1<<unix.CAP_SYS_RESOURCE | sys.Initial, func(o *Observer, n *notify.Notification) bool {
		return o.raisesLimit(n, 0, n.Args[0], n.Args[1])
	}},
	{unix.SYS_PRLIMIT64, "prlimit64", 1<<unix.CAP_SYS_RESOURCE | sys.Initial, func(o *Observer, n *notify.Notification) bool {
		return o.raisesLimit(n, n.Args[0], n.Args[1], n.Args[2])
	}},
}

const locks = 1<<unix.CAP_IPC_LOCK | sys.Initial

func always(*Observer, *notify.Notification) bool { return true }

// device reports whether mknod(2) makes a device. One with the number 0 is an overlay's mark, which everyone may make.
func device(mode, number uint64) bool {
	kind := mode & unix.S_IFMT
	return kind == unix.S_IFBLK || kind == unix.S_IFCHR && number != 0
}

func realTime(policy uint32) bool {
	return policy == unix.SCHED_FIFO || policy == unix.SCHED_RR || policy == unix.SCHED_DEADLINE
}

// raisesPriority reports whether setpriority(2) asks for more than the caller has. Of other processes it takes it that
// they have the usual priority.
func raisesPriority(_ *Observer, n *notify.Notification) bool {
	has := 0
	if which, who := n.Args[0], uint32(n.Args[1]); which == unix.PRIO_PROCESS && who == 0 {
		if own, err := unix.Getpriority(unix.PRIO_PROCESS, int(n.PID)); err == nil {
			has = 20 - own // as the kernel returns it
		}
	}
	return int(int32(n.Args[2])) < has
}

// locksTooMuch reports whether a process may not lock so many bytes more in memory.
func locksTooMuch(n *notify.Notification, size uint64) bool {
	var limit unix.Rlimit
	status := file(n.PID, "status")
	pid := notify.Last(status, "Tgid:")
	if pid == 0 || unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, nil, &limit) != nil || limit.Cur == math.MaxUint64 {
		return false
	}
	return size+kilobytes(status, "VmLck:") > limit.Cur
}

func locksAllTooMuch(_ *Observer, n *notify.Notification) bool {
	if n.Args[0]&unix.MCL_CURRENT == 0 {
		return false
	}
	status := file(n.PID, "status")
	return locksTooMuch(n, kilobytes(status, "VmSize:")-kilobytes(status, "VmLck:"))
}

// raisesLimit reports whether a call raises a hard limit of the caller, to what outside it could be.
func (o *Observer) raisesLimit(n *notify.Notification, process, resource, at uint64) bool {
	var wanted, has unix.Rlimit
	b := o.text[:unsafe.Sizeof(wanted)]
	pid := notify.Last(file(n.PID, "status"), "Tgid:")
	if at == 0 || process != 0 || resource == unix.RLIMIT_CORE || pid == 0 || notify.ReadMemory(n.PID, uintptr(at), b) != 0 || unix.Prlimit(pid, int(resource), nil, &has) != nil {
		return false
	}
	wanted.Cur, wanted.Max = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if wanted.Cur > wanted.Max || resource == unix.RLIMIT_NOFILE && wanted.Max > uint64(setting("fs/nr_open", 1<<20)) {
		return false // nobody may do that
	}
	return wanted.Max > has.Max
}

// word reads a number from a caller's memory. Zero: it cannot be read.
func (o *Observer) word(thread uint32, at uint64) uint32 {
	if notify.ReadMemory(thread, uintptr(at), o.text[:4]) != 0 {
		return 0
	}
	return binary.LittleEndian.Uint32(o.text[:4])
}

// rootOnly handles one of rootCalls, and reports whether it is one that fails.
func (o *Observer) rootOnly(n *notify.Notification) bool {
	for i := range rootCalls {
		if c := &rootCalls[i]; c.nr == n.NR && c.needs&^o.Held == 0 && c.fails(o, n) {
			o.tell(n, Attempt{Kind: Syscall, Path: c.name, Err: unix.EPERM, Privileges: true, Needs: c.needs})
			return true
		}
	}
	return false
}

// observeRoot reports those of rootCalls that the caller has the privileges for.
func observeRoot(f *seccomp.Filter, held uint64) {
	for i := range rootCalls {
		switch c := &rootCalls[i]; {
		case c.needs&^held != 0:
		case c.nr == unix.SYS_PRLIMIT64: // which mostly asks for a limit
			f.When(seccomp.Equal, uint32(c.nr), func() {
				const limit = 2
				f.Lower(limit)
				f.Add(seccomp.Equal, 1, 0, 0)
				f.Notify()
				f.Nr()
			})
		default:
			f.When(seccomp.Equal, uint32(c.nr), f.Notify)
		}
	}
}
