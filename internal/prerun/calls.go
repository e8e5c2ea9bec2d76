//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"
)

// Where a seccomp filter refuses a call that the runtime makes, the runtime crashes with a stack trace, or hangs.

// runtimeCalls are the calls that no Go program does without, except for those that every program makes first. The
// kernel refuses each with these arguments with an error that a filter does not choose, or it does nothing.
var runtimeCalls = [...]struct {
	number    uintptr
	one, rest uintptr // the first argument, and the others
	name      string
	early     bool // function try relies on it
}{
	{syscall.SYS_READ, none, 0, "read(2)", true},
	{syscall.SYS_CLOSE, none, 0, "close(2)", true},
	{syscall.SYS_FCNTL, none, none, "fcntl(2)", false},
	{syscall.SYS_MMAP, 0, 0, "mmap(2)", false},
	{syscall.SYS_CLONE, syscall.CLONE_THREAD, 0, "clone(2)", false},
	{syscall.SYS_WAIT4, none, none, "wait4(2)", true},
	{syscall.SYS_RT_SIGACTION, none, 0, "rt_sigaction(2)", false},
	{syscall.SYS_RT_SIGPROCMASK, none, 0, "rt_sigprocmask(2)", false},
	{syscall.SYS_SIGALTSTACK, 0, 0, "sigaltstack(2)", false},
	{syscall.SYS_EPOLL_CREATE1, none, 0, "epoll_create1(2)", false},
	{syscall.SYS_EPOLL_CTL, none, none, "epoll_ctl(2)", false},
	{syscall.SYS_EPOLL_PWAIT, none, 0, "epoll_pwait(2)", false},
	{syscall.SYS_EVENTFD2, 0, none, "eventfd2(2)", false},
}

const none = ^uintptr(0)

// filtered reports whether a filter may refuse calls.
func filtered() bool {
	const prGetSeccomp = 21
	mode, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prGetSeccomp, 0, 0, 0, 0, 0)
	return e != 0 || mode != 0
}

// needCalls ends the process if a filter refuses one of them; early: one of those on which function try relies, which
// would wait without end, or not for the command's end.
func needCalls(stack unsafe.Pointer, early bool) {
	for i := range runtimeCalls {
		c := &runtimeCalls[i]
		if early && !c.early {
			continue
		}
		_, _, e := syscall.RawSyscall6(c.number, c.one, c.rest, c.rest, c.rest, c.rest, c.rest)
		if e == syscall.EPERM || e == syscall.EACCES || e == syscall.ENOSYS {
			end(stack, refusedCall, c.name, refusedRuntime)
		}
	}
	if early {
		return
	}
	// Zero waiters are woken.
	var word uint32
	const wake = 1
	if _, _, e := syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), wake, 0, 0, 0, 0); e != 0 {
		end(stack, refusedCall, "futex(2)", refusedRuntime)
	}
}

const (
	refusedCall    = "nsrun: a seccomp filter refuses "
	refusedRuntime = ", which the Go runtime needs (try: docker run --security-opt seccomp=unconfined, or podman run --security-opt seccomp=unconfined, " +
		"or a unit of systemd without SystemCallFilter=)\n"
)
