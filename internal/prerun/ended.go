//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A seccomp filter can end a process at a system call, instead of refusing it. Of nsrun, which would end without a
// word, nobody would know why. So under a filter another process makes the calls first.

// endingCalls are calls that nsrun itself makes, whatever it does, beside those of runtimeCalls: it could do without
// some of them if they were refused. Calls that sandboxes make are none of them: package features finds those out. With
// -1 as each argument the kernel refuses all of them, or they do nothing.
var endingCalls = [...]struct {
	number uintptr
	name   string
}{
	{unix.SYS_FUTEX, "futex(2)"}, {unix.SYS_SCHED_YIELD, "sched_yield(2)"}, {unix.SYS_MADVISE, "madvise(2)"},
	{unix.SYS_SCHED_GETAFFINITY, "sched_getaffinity(2)"}, {unix.SYS_TGKILL, "tgkill(2)"}, {unix.SYS_GETRANDOM, "getrandom(2)"},
	{unix.SYS_GETRLIMIT, "getrlimit(2)"}, {unix.SYS_PRLIMIT64, "prlimit64(2)"}, {unix.SYS_PIPE2, "pipe2(2)"}, {unix.SYS_SOCKET, "socket(2)"},
	{unix.SYS_SENDMSG, "sendmsg(2)"}, {unix.SYS_RECVMSG, "recvmsg(2)"}, {unix.SYS_CLONE3, "clone3(2)"}, {unix.SYS_WAITID, "waitid(2)"},
	{unix.SYS_PIDFD_OPEN, "pidfd_open(2)"}, {unix.SYS_OPENAT, "openat(2)"}, {unix.SYS_OPENAT2, "openat2(2)"}, {unix.SYS_FSTAT, "fstat(2)"},
	{unix.SYS_STATFS, "statfs(2)"}, {unix.SYS_FSTATFS, "fstatfs(2)"}, {unix.SYS_NEWFSTATAT, "newfstatat(2)"}, {unix.SYS_STATX, "statx(2)"},
	{unix.SYS_GETDENTS64, "getdents64(2)"}, {unix.SYS_LSEEK, "lseek(2)"}, {unix.SYS_FLOCK, "flock(2)"}, {unix.SYS_FTRUNCATE, "ftruncate(2)"},
	{unix.SYS_PREAD64, "pread64(2)"}, {unix.SYS_PWRITE64, "pwrite64(2)"}, {unix.SYS_READLINKAT, "readlinkat(2)"}, {unix.SYS_MKDIRAT, "mkdirat(2)"},
	{unix.SYS_UNLINKAT, "unlinkat(2)"}, {unix.SYS_RENAMEAT2, "renameat2(2)"}, {unix.SYS_FLISTXATTR, "flistxattr(2)"}, {unix.SYS_CAPGET, "capget(2)"},
}

// needLife ends the process with a message if a filter ends processes at one of these calls, or at one of runtimeCalls.
func needLife(stack unsafe.Pointer) {
	const calls = len(runtimeCalls) + len(endingCalls)
	if !endsAt(0, calls) {
		return
	}
	for i := range calls {
		if !endsAt(i, i+1) {
			continue
		}
		name := ""
		if i < len(runtimeCalls) {
			name = runtimeCalls[i].name
		} else {
			name = endingCalls[i-len(runtimeCalls)].name
		}
		end(stack, endedAtCall, name, endedRemedy)
	}
}

// endsAt reports whether a filter ends a process that makes calls of the two tables, from one index to another.
func endsAt(from, to int) bool {
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return false // needCalls says so, or main
	}
	if pid == 0 {
		for i := from; i < to; i++ {
			number, one, rest := uintptr(0), none, none
			if i < len(runtimeCalls) {
				c := &runtimeCalls[i]
				number, one, rest = c.number, c.one, c.rest
			} else {
				number = endingCalls[i-len(runtimeCalls)].number
			}
			syscall.RawSyscall6(number, one, rest, rest, rest, rest, rest)
		}
		exit(0)
	}
	var status uint32
	for {
		_, _, e := syscall.RawSyscall6(syscall.SYS_WAIT4, pid, uintptr(unsafe.Pointer(&status)), 0, 0, 0, 0)
		if e != syscall.EINTR {
			break
		}
	}
	const signal = 0x7f
	return status&signal == uint32(syscall.SIGSYS)
}

const (
	endedAtCall = "nsrun: a seccomp filter ends processes that call "
	endedRemedy = ", instead of refusing it (try: docker run --security-opt seccomp=unconfined, or podman run --security-opt seccomp=unconfined, " +
		"or a unit of systemd without SystemCallFilter=)\n"
)
