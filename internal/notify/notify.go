//go:build linux

// Package notify wraps seccomp_unotify(2): a filter hands system calls to another process, which answers in the
// kernel's place or lets the kernel continue. It imports nothing of this module, and decides nothing.
package notify

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Notification is struct seccomp_notif: a system call in which a thread waits.
type Notification struct {
	ID    uint64
	PID   uint32 // the thread's number, in our PID namespace; 0: it is not in ours
	flags uint32
	NR    int32
	Arch  uint32
	ip    uint64
	Args  [6]uint64
	_     [64]byte // room for a longer struct of a later kernel
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

// Restart is ERESTARTSYS: after a signal handler the call is restarted, or fails with EINTR, depending on how the
// handler was installed.
const Restart = syscall.Errno(512)

// A Listener is the descriptor on which the kernel reports system calls.
type Listener int

// Receive waits for a system call. ENOENT: the caller no longer waits.
func (l Listener) Receive(n *Notification) syscall.Errno {
	*n = Notification{}
	_, e := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return e
}

// Wait waits for a system call. False: no process is left that could make one, or the descriptor stop is readable.
func (l Listener) Wait(stop int) bool {
	polled := [2]unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	for {
		_, _, e := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 2, 0, 0, 0, 0)
		if ended, call := answered(&polled, e); ended {
			return call
		}
	}
}

// answered reports whether an answer of ppoll(2) ends the wait, and whether there is a system call then.
//
//go:nosplit
//go:norace
func answered(polled *[2]unix.PollFd, e syscall.Errno) (ended, call bool) {
	switch {
	case e == syscall.EINTR:
		return false, false
	case e != 0 || polled[1].Revents != 0:
		return true, false
	}
	// POLLHUP alone: no process is left that could make one.
	return polled[0].Revents != 0, polled[0].Revents&unix.POLLIN != 0
}

// ioctl is ioctl(2). It goes through Go's scheduler, because it can take long: the kernel has one lock for all callers
// of the filter, and puts a descriptor into a caller's table only when the caller runs, which may rarely get a
// processor. EINTR means that a signal came while the kernel waited for the lock; nothing was done then.
func (l Listener) ioctl(request uintptr, arg unsafe.Pointer) (int, syscall.Errno) {
	for {
		if n, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(l), request, uintptr(arg)); e != syscall.EINTR {
			return int(n), e
		}
	}
}

// Valid reports whether the caller still waits. If so, its number is still its own.
func (l Listener) Valid(id uint64) bool {
	_, e := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
	return e == 0
}

// Answer ends the call, with 0 or an error.
func (l Listener) Answer(id uint64, e syscall.Errno) { l.send(&reply{id: id, errno: -int32(e)}) }

// Proceed lets the kernel carry out the call, with the caller's memory as it is then.
func (l Listener) Proceed(id uint64) {
	l.send(&reply{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

func (l Listener) send(r *reply) {
	// It fails only if the caller no longer waits.
	_, _ = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// Place replaces the caller's descriptor number by our descriptor fd.
func (l Listener) Place(id uint64, fd, number int, cloexec bool) syscall.Errno {
	a := addition{id: id, flags: unix.SECCOMP_ADDFD_FLAG_SETFD, source: uint32(fd), number: uint32(number)}
	_, e := l.add(&a, cloexec)
	return e
}

// Give gives the caller our descriptor fd, and ends the call with the number that it has there. It does not do so in
// one step (SECCOMP_ADDFD_FLAG_SEND): if a signal, a stop (Ctrl-Z) or a freezer interrupts that step, the call ends
// with 0. With two steps the first one is repeated. Before Linux 5.19, a signal for the caller between the two leaves
// it a descriptor that it does not know of.
func (l Listener) Give(id uint64, fd int, cloexec bool) syscall.Errno {
	number, e := l.Add(id, fd, cloexec)
	if e == 0 {
		l.send(&reply{id: id, val: int64(number)})
	}
	return e
}

// Add gives the caller our descriptor fd, and returns its number there. The call goes on.
func (l Listener) Add(id uint64, fd int, cloexec bool) (number int, e syscall.Errno) {
	return l.add(&addition{id: id, source: uint32(fd)}, cloexec)
}

// add is SECCOMP_IOCTL_NOTIF_ADDFD.
func (l Listener) add(a *addition, cloexec bool) (number int, e syscall.Errno) {
	if cloexec {
		a.numFlags = unix.O_CLOEXEC
	}
	return l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(a))
}

// WakeHere makes the kernel wake callers and this thread on each other's processor (Linux 6.6).
func (l Listener) WakeHere() {
	_, _, _ = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// ReadMemory copies a caller's memory. It goes through Go's scheduler, because the caller's page faults can take long.
func ReadMemory(pid uint32, at uintptr, to []byte) syscall.Errno {
	if len(to) == 0 {
		return 0
	}
	local := unix.Iovec{Base: &to[0], Len: uint64(len(to))}
	remote := unix.RemoteIovec{Base: at, Len: len(to)}
	n, _, e := syscall.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if e == syscall.ENOSYS || e == syscall.EPERM || e == syscall.EACCES {
		return readMem(pid, at, to) // it needs the same rights, and filters refuse it less often
	}
	if e == 0 && int(n) != len(to) {
		e = syscall.EFAULT
	}
	return e
}

// ReadString reads a string that ends with a zero byte from a caller's memory, with text as its buffer. It reads page
// by page, because the next page may not exist. ENAMETOOLONG: the string does not fit into text.
func ReadString(pid uint32, at uintptr, text []byte) (string, syscall.Errno) {
	page := uintptr(os.Getpagesize())
	for n := 0; n < len(text); {
		part := text[n:min(len(text), n+int(page-(at+uintptr(n))%page))]
		if e := ReadMemory(pid, at+uintptr(n), part); e != 0 {
			return "", e
		}
		if i := bytes.IndexByte(part, 0); i >= 0 {
			return string(text[:n+i]), 0
		}
		n += len(part)
	}
	return "", syscall.ENAMETOOLONG
}

// Proc returns the path of a file in the /proc directory of a process.
func Proc[N int | uint32](pid N, name string) string {
	return "/proc/" + strconv.FormatUint(uint64(pid), 10) + "/" + name
}

// Base returns the path in /proc of the directory at which a relative name of a call begins.
func Base(pid uint32, dir int32) string {
	if dir == unix.AT_FDCWD {
		return Proc(pid, "cwd")
	}
	return Proc(pid, "fd/"+strconv.Itoa(int(dir)))
}

// LookEvery is how often to check whether a call still waits, and whether its thread has a signal.
const LookEvery = 100 * time.Millisecond

// Room is how long a connect(2) that has waited for a while waits for room in a listener's queue until it is tried
// again. Many can wait for long, and each try takes time of this process.
func Room(waited time.Duration) time.Duration { return min(max(waited, LookEvery/20), LookEvery) }

// Signalled reports whether a signal waits that a thread has a handler for and does not block. status is its file in
// /proc.
func Signalled(status []byte) bool {
	pending := Number(status, "SigPnd:", 16) | Number(status, "ShdPnd:", 16)
	return pending&Number(status, "SigCgt:", 16)&^Number(status, "SigBlk:", 16) != 0
}

// Field returns the value in the line of a file of /proc that begins with name. Nil: there is none.
func Field(b []byte, name string) []byte {
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return bytes.TrimSpace(v)
		}
	}
	return nil
}

// Number is a Field that is a number. 0: the field is missing or not a number.
func Number(b []byte, name string, base int) uint64 {
	n, _ := strconv.ParseUint(string(Field(b, name)), base, 64)
	return n
}

// Last returns the last number of a Field: that of a process in the innermost namespace. 0: there is none.
func Last(b []byte, name string) int {
	v := Field(b, name)
	n, _ := strconv.Atoi(string(v[bytes.LastIndexAny(v, " \t")+1:]))
	return n
}

func readMem(pid uint32, at uintptr, to []byte) syscall.Errno {
	fd, err := unix.Open(Proc(pid, "mem"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return syscall.EPERM
	}
	defer unix.Close(fd)
	if n, err := unix.Pread(fd, to, int64(at)); err != nil || n != len(to) {
		return syscall.EFAULT
	}
	return 0
}
