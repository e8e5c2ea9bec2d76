//go:build linux

package broker

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif: a system call that somebody waits in.
type notification struct {
	id    uint64
	pid   uint32 // the thread's number, in our PID namespace; 0: it is not in ours
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
	_     [64]byte // for kernels in which it has become longer
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	val   int64
	errno int32 // negative
	flags uint32
}

// addition is struct seccomp_notif_addfd.
type addition struct {
	id       uint64
	flags    uint32
	source   uint32
	number   uint32
	numFlags uint32
}

// restart is ERESTARTSYS: the call is begun anew behind the handler of a signal, or
// fails with EINTR, as the handler was installed.
const restart = syscall.Errno(512)

// A listener is the descriptor on which the kernel tells of system calls.
type listener int

// receive waits for a system call. ENOENT: it has gone away meanwhile.
func (l listener) receive(n *notification) syscall.Errno {
	*n = notification{}
	_, e := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return e
}

// ioctl is ioctl(2). The kernel has a lock for all callers of the filter, and puts descriptors into a caller's table when that
// runs: with little of a processor that takes as long as the caller likes, which is why the scheduler is told. A signal that comes
// while somebody else has the lock is EINTR, and nothing is done.
func (l listener) ioctl(request uintptr, arg unsafe.Pointer) (int, syscall.Errno) {
	for {
		if n, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(l), request, uintptr(arg)); e != syscall.EINTR {
			return int(n), e
		}
	}
}

// valid reports whether the caller still waits, and so is still the process that its
// number names.
func (l listener) valid(id uint64) bool {
	_, e := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
	return e == 0
}

// answer ends the call: with 0 or an error.
func (l listener) answer(id uint64, e syscall.Errno) {
	l.send(&reply{id: id, errno: -int32(e)})
}

// proceed lets the kernel do the call, with the memory as it is then.
func (l listener) proceed(id uint64) {
	l.send(&reply{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

func (l listener) send(r *reply) {
	// It can fail only where the caller is gone.
	_, _ = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// place puts our descriptor fd over the caller's one of that number.
func (l listener) place(id uint64, fd, number int, cloexec bool) syscall.Errno {
	a := addition{id: id, flags: unix.SECCOMP_ADDFD_FLAG_SETFD, source: uint32(fd), number: uint32(number)}
	_, e := l.add(&a, cloexec)
	return e
}

// give gives the caller our descriptor fd under a number of its own, with which the call ends. Not in one step
// (SECCOMP_ADDFD_FLAG_SEND): if a signal, a stop (Ctrl-Z) or a freezer interrupts us in that one, the call ends with 0.
// In two the first one is begun anew. Before Linux 5.19 a signal for the caller between them leaves it
// a descriptor that it knows nothing of.
func (l listener) give(id uint64, fd int, cloexec bool) syscall.Errno {
	number, e := l.add(&addition{id: id, source: uint32(fd)}, cloexec)
	if e == 0 {
		l.send(&reply{id: id, val: int64(number)})
	}
	return e
}

// add is SECCOMP_IOCTL_NOTIF_ADDFD.
func (l listener) add(a *addition, cloexec bool) (number int, e syscall.Errno) {
	if cloexec {
		a.numFlags = unix.O_CLOEXEC
	}
	return l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(a))
}

// wakeHere has callers and us woken on the processor where the other one is. Linux 6.6.
func (l listener) wakeHere() {
	_, _, _ = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}
