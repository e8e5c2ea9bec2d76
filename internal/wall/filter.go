//go:build linux

package wall

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

const (
	ioprioWhoProcess = 1 // from linux/ioprio.h

	// firstUnknown is the first system call that this list does not cover: it came with Linux 6.17.
	firstUnknown = unix.SYS_FILE_SETATTR
)

// Options of a Filter. The zero Options allow no network.
type Options struct {
	Network  bool // the host's network
	Loopback bool // TCP and unix sockets, which a Deputy makes
}

// refused are calls that fail with EPERM: System V IPC and POSIX message queues, which belong to the host, and
// fanotify, which would report what happens to hidden files.
var refused = [...]uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_FANOTIFY_INIT,
}

// selfOnly are calls whose first argument names a process or thread. Only zero, the caller, is allowed.
var selfOnly = [...]uint32{
	unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
}

// Filter refuses system calls that a command without namespaces of its own must not make. It is used together with
// nsexec.DefaultFilter, which refuses system calls of other architectures. It is long because it lists them all.
func Filter(o Options) []unix.SockFilter {
	var f builder
	f.Nr()
	f.Add(seccomp.AtLeast, 0, 1, firstUnknown)
	f.Refuse(unix.ENOSYS)
	for _, nr := range [...]uint32{unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT} { // then libraries use the older calls
		f.Add(seccomp.Equal, 0, 1, nr)
		f.Refuse(unix.ENOSYS)
	}
	for _, nr := range refused {
		f.Add(seccomp.Equal, 0, 1, nr)
		f.Refuse(unix.EPERM)
	}
	for _, nr := range selfOnly {
		f.call(nr, func() {
			f.Lower(0)
			f.unless(0, unix.EPERM)
		})
	}
	// The Deputy cannot read the memory of a process that is not dumpable. There are no core dumps anyway, so the
	// call reports success and changes nothing.
	f.call(unix.SYS_PRCTL, func() {
		f.Lower(0)
		f.Add(seccomp.Equal, 0, 1, unix.PR_SET_DUMPABLE)
		f.Refuse(0)
	})
	f.call(unix.SYS_SETPRIORITY, func() {
		f.Lower(0)
		f.unless(unix.PRIO_PROCESS, unix.EPERM)
		f.Lower(1)
		f.unless(0, unix.EPERM)
	})
	f.call(unix.SYS_IOPRIO_SET, func() {
		f.Lower(0)
		f.unless(ioprioWhoProcess, unix.EPERM)
		f.Lower(1)
		f.unless(0, unix.EPERM)
	})
	f.call(unix.SYS_IOCTL, f.ioctls)
	f.call(unix.SYS_SOCKET, func() {
		f.Lower(0)
		var families []uint32
		switch {
		case o.Network:
			families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
		case o.Loopback:
			families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX}
		}
		for _, family := range families {
			f.Add(seccomp.Equal, 0, 1, family)
			f.Allow()
		}
		f.Refuse(unix.EACCES)
	})
	// MSG_FASTOPEN makes a call that sends also connect.
	if !o.Network {
		f.call(unix.SYS_SETSOCKOPT, f.options)
		for _, c := range [...]struct{ nr, flags uint32 }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}} {
			f.call(c.nr, func() {
				f.Lower(c.flags)
				f.Add(seccomp.AnyBit, 0, 1, unix.MSG_FASTOPEN)
				f.Refuse(unix.EOPNOTSUPP)
			})
		}
	}
	// A connected pair reaches nothing else. But a datagram socket can be connected again, so the Deputy makes a
	// pair of another type instead (Notified).
	f.call(unix.SYS_SOCKETPAIR, func() {
		f.Lower(0)
		f.unless(unix.AF_UNIX, unix.EACCES)
		f.Lower(1)
		f.Add(seccomp.And, 0, 0, seccomp.SockTypeMask)
		f.Add(seccomp.Equal, 3, 0, unix.SOCK_STREAM)
		f.Add(seccomp.Equal, 2, 0, unix.SOCK_SEQPACKET)
		f.Add(seccomp.Equal, 1, 0, unix.SOCK_DGRAM)
		f.Refuse(unix.EACCES)
	})
	f.Allow()
	return f.Filter
}

// builder is an unfinished filter.
type builder struct{ seccomp.Filter }

// unless refuses every value but one.
func (f *builder) unless(k uint32, e unix.Errno) {
	f.Add(seccomp.Equal, 1, 0, k)
	f.Refuse(e)
}

// call adds the checks of one system call. If they refuse nothing, the call is allowed.
func (f *builder) call(nr uint32, check func()) {
	f.When(seccomp.Equal, nr, func() {
		check()
		f.Allow()
	})
}
