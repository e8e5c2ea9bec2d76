//go:build linux

package wall

import (
	"golang.org/x/sys/unix"
)

// Numbers from linux/seccomp.h, linux/bpf_common.h and linux/ioprio.h.
const (
	retAllow  = 0x7fff0000
	retNotify = 0x7fc00000
	retErrno  = 0x00050000

	ldAbs = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	jeq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jge   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jset  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	ret   = unix.BPF_RET | unix.BPF_K

	dataNr   = 0
	dataArgs = 16 // the lower halves are first, all our architectures being little-endian

	ioprioWhoProcess = 1

	// Calls that package unix does not name.
	sysFchmodat2      = 452
	sysSetxattrat     = 463
	sysRemovexattrat  = 466
	sysFirstUnknown   = 469 // file_setattr, Linux 6.17, and whatever comes behind it
	sockTypeMask      = 0xf
	ioctlTypeMask     = 0xff00
	ioctlTypeFS       = 'f' << 8
	ioctlTypeXFS      = 'X' << 8
	ioctlTypeVersion  = 'v' << 8
	ioctlTypeBtrfs    = 0x94 << 8
	fsIocGetflags     = 0x80086601
	fsIocFiemap       = 0xc020660b
	fsIocFsgetxattr   = 0x801c581f
	fsIocGetversion   = 0x80087601
	fsIocGetfslabel   = 0x81009431
	btrfsFideduperang = 0xc0189436
)

// Options of a Filter. The zero Options allow no network.
type Options struct {
	Network  bool // the host's network
	Loopback bool // TCP and unix sockets, which a Deputy makes
}

// refused are calls that fail with EPERM: System V IPC and POSIX message queues, which are the host's; and watching whole
// directories of hidden files.
var refused = [...]uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_FANOTIFY_INIT,
}

// selfOnly are calls about a process or thread that its first argument names: zero is the caller.
var selfOnly = [...]uint32{
	unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
}

// allowedIoctls are those of files that change nothing but what a descriptor was opened for writing to.
var allowedIoctls = [...]uint32{fsIocGetflags, fsIocFiemap, fsIocFsgetxattr, fsIocGetversion, fsIocGetfslabel, unix.FICLONE, unix.FICLONERANGE, btrfsFideduperang}

// Filter refuses what has no place in a command without namespaces of its own. It comes besides nsexec.DefaultFilter, which
// refuses system calls of other architectures. It is long because it is the list of what is refused.
func Filter(o Options) []unix.SockFilter {
	var f builder
	f.add(ldAbs, 0, 0, dataNr)
	f.add(jge, 0, 1, sysFirstUnknown)
	f.errno(unix.ENOSYS)
	for _, nr := range [...]uint32{sysSetxattrat, sysRemovexattrat} { // libraries take the older calls then
		f.add(jeq, 0, 1, nr)
		f.errno(unix.ENOSYS)
	}
	for _, nr := range refused {
		f.add(jeq, 0, 1, nr)
		f.errno(unix.EPERM)
	}
	for _, nr := range selfOnly {
		f.call(nr, func() {
			f.arg(0)
			f.unless(0, unix.EPERM)
		})
	}
	// A process that nobody may look into could not hand over any call. There are no core dumps anyway: it seems to have worked.
	f.call(unix.SYS_PRCTL, func() {
		f.arg(0)
		f.add(jeq, 0, 1, unix.PR_SET_DUMPABLE)
		f.errno(0)
	})
	f.call(unix.SYS_SETPRIORITY, func() {
		f.arg(0)
		f.unless(unix.PRIO_PROCESS, unix.EPERM)
		f.arg(1)
		f.unless(0, unix.EPERM)
	})
	f.call(unix.SYS_IOPRIO_SET, func() {
		f.arg(0)
		f.unless(ioprioWhoProcess, unix.EPERM)
		f.arg(1)
		f.unless(0, unix.EPERM)
	})
	f.call(unix.SYS_IOCTL, func() {
		f.arg(1)
		for _, allowed := range allowedIoctls {
			f.add(jeq, 0, 1, allowed)
			f.add(ret, 0, 0, retAllow)
		}
		f.add(and, 0, 0, ioctlTypeMask)
		for _, kind := range [...]uint32{ioctlTypeFS, ioctlTypeXFS, ioctlTypeVersion, ioctlTypeBtrfs} {
			f.add(jeq, 0, 1, kind)
			f.errno(unix.EPERM)
		}
	})
	f.call(unix.SYS_SOCKET, func() {
		f.arg(0)
		var families []uint32
		switch {
		case o.Network:
			families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
		case o.Loopback:
			families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX}
		}
		for _, family := range families {
			f.add(jeq, 0, 1, family)
			f.add(ret, 0, 0, retAllow)
		}
		f.errno(unix.EACCES)
	})
	// A call that sends and connects in one.
	if !o.Network {
		f.call(unix.SYS_SETSOCKOPT, f.options)
		for nr, flags := range map[uint32]uint32{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
			f.call(nr, func() {
				f.arg(flags)
				f.add(jset, 0, 1, unix.MSG_FASTOPEN)
				f.errno(unix.EOPNOTSUPP)
			})
		}
	}
	// Of a pair that is connected nothing else can be reached. A datagram socket can be connected again: a Deputy makes another
	// pair (Notified).
	f.call(unix.SYS_SOCKETPAIR, func() {
		f.arg(0)
		f.unless(unix.AF_UNIX, unix.EACCES)
		f.arg(1)
		f.add(and, 0, 0, sockTypeMask)
		f.add(jeq, 3, 0, unix.SOCK_STREAM)
		f.add(jeq, 2, 0, unix.SOCK_SEQPACKET)
		f.add(jeq, 1, 0, unix.SOCK_DGRAM)
		f.errno(unix.EACCES)
	})
	f.add(ret, 0, 0, retAllow)
	return f
}

// builder is a filter that is not complete.
type builder []unix.SockFilter

func (f *builder) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *builder) errno(e unix.Errno) { f.add(ret, 0, 0, retErrno|uint32(e)) }

// arg loads the lower half of an argument.
func (f *builder) arg(n uint32) { f.add(ldAbs, 0, 0, dataArgs+8*n) }

// unless refuses all but one value.
func (f *builder) unless(k uint32, e unix.Errno) {
	f.add(jeq, 1, 0, k)
	f.errno(e)
}

// call adds what is looked at for one call, which is allowed behind that.
func (f *builder) call(nr uint32, check func()) {
	at := len(*f)
	f.add(jeq, 0, 0, nr)
	check()
	f.add(ret, 0, 0, retAllow)
	(*f)[at].Jf = uint8(len(*f) - at - 1)
}
