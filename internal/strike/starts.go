//go:build linux

package strike

import (
	"strings"

	"golang.org/x/sys/unix"
)

// starts are the system calls that count with Plan.Starts: those that make processes and set up a sandbox.
var starts = map[uintptr]string{
	unix.SYS_CLONE: "clone", unix.SYS_CLONE3: "clone3", unix.SYS_EXECVE: "execve", unix.SYS_EXECVEAT: "execveat",
	unix.SYS_UNSHARE: "unshare", unix.SYS_SETNS: "setns", unix.SYS_PIDFD_OPEN: "pidfd_open", unix.SYS_PIDFD_GETFD: "pidfd_getfd",
	unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_SETSID: "setsid", unix.SYS_SETPGID: "setpgid",
	unix.SYS_PRCTL: "prctl", unix.SYS_SECCOMP: "seccomp", unix.SYS_BPF: "bpf", unix.SYS_KEYCTL: "keyctl",
	unix.SYS_LANDLOCK_CREATE_RULESET: "landlock_create_ruleset", unix.SYS_LANDLOCK_ADD_RULE: "landlock_add_rule",
	unix.SYS_LANDLOCK_RESTRICT_SELF: "landlock_restrict_self", unix.SYS_PRLIMIT64: "prlimit64",
	unix.SYS_SETRESUID: "setresuid", unix.SYS_SETRESGID: "setresgid", unix.SYS_SETGROUPS: "setgroups",
	unix.SYS_SETHOSTNAME: "sethostname",

	unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount2", unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_CHROOT: "chroot",
	unix.SYS_CHDIR: "chdir", unix.SYS_FCHDIR: "fchdir", unix.SYS_FSOPEN: "fsopen", unix.SYS_FSCONFIG: "fsconfig",
	unix.SYS_FSMOUNT: "fsmount", unix.SYS_FSPICK: "fspick", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_OPEN_TREE: "open_tree",
	unix.SYS_MOUNT_SETATTR: "mount_setattr", unix.SYS_STATFS: "statfs", unix.SYS_FSTATFS: "fstatfs",

	unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_SYMLINKAT: "symlinkat",
	unix.SYS_MKNODAT: "mknodat", unix.SYS_LINKAT: "linkat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_FCHMOD: "fchmod",
	unix.SYS_FCHOWN: "fchown", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64",

	unix.SYS_MEMFD_CREATE: "memfd_create", unix.SYS_PIPE2: "pipe2", unix.SYS_SOCKETPAIR: "socketpair", unix.SYS_SOCKET: "socket",
	unix.SYS_BIND: "bind", unix.SYS_LISTEN: "listen", unix.SYS_CONNECT: "connect", unix.SYS_SETSOCKOPT: "setsockopt",
	unix.SYS_SENDMSG: "sendmsg", unix.SYS_RECVMSG: "recvmsg", unix.SYS_SENDTO: "sendto", unix.SYS_RECVFROM: "recvfrom",
	unix.SYS_DUP: "dup", unix.SYS_DUP3: "dup3", unix.SYS_FCNTL: "fcntl", unix.SYS_CLOSE_RANGE: "close_range", unix.SYS_IOCTL: "ioctl",
	unix.SYS_TIMERFD_CREATE: "timerfd_create", unix.SYS_INOTIFY_INIT1: "inotify_init1", unix.SYS_FANOTIFY_INIT: "fanotify_init",
}

// startCall is a call of a thread, if it counts with Plan.Starts. One that makes a thread does not: runtimes do that,
// and Go's ends the program if it fails. Calls that cannot fail, as a write to a pipe, do not count either.
func startCall(tid int, nr uint64, args [6]uint64) (c Call, ok bool) {
	name, ok := starts[uintptr(nr)]
	flags := args[0]
	switch name {
	case "clone3":
		flags = readWord(tid, args[0])
		fallthrough
	case "clone":
		ok = flags&unix.CLONE_THREAD == 0
	case "fcntl":
		ok = args[1] == unix.F_DUPFD || args[1] == unix.F_DUPFD_CLOEXEC || args[1] == unix.F_ADD_SEALS
	case "write", "pwrite64":
		ok = strings.HasPrefix(fileOf(tid, args[0]), "/")
	case "ioctl":
		ok = !strings.HasPrefix(fileOf(tid, args[0]), "anon_inode:") // as that of a seccomp listener
	}
	return Call{Name: name}, ok
}

// executed lets a process go that has executed another program: from now on it is not traced.
func (t *tracer) executed(tid int) error {
	if !t.plan.Starts || tid == t.main {
		return t.resume(tid, 0)
	}
	delete(t.threads, tid)
	return unix.PtraceDetach(tid)
}

// startStopped is called where a thread enters or leaves a call.
func (t *tracer) startStopped(tid int, th *thread) error {
	ended, nr, args, err := readCall(tid)
	if err != nil {
		return err
	}
	switch {
	case !ended:
		return t.strikeStart(tid, th, nr, args)
	case th.struck:
		return t.killOne(tid)
	}
	return t.resume(tid, 0)
}

// strikeStart looks at a call of Plan.Starts.
func (t *tracer) strikeStart(tid int, th *thread, nr uint64, args [6]uint64) error {
	c, ok := startCall(tid, nr, args)
	if !ok || t.plan.Only != nil && !t.plan.Only(c) {
		return t.resume(tid, 0)
	}
	t.result.Calls++
	if t.plan.Trace != nil {
		t.plan.Trace(t.result.Calls, c)
	}
	if t.plan.At != t.result.Calls {
		return t.resume(tid, 0)
	}
	t.result.Call = c
	switch t.plan.Do {
	case Fail:
		return t.fail(tid)
	case KillAfter:
		th.struck = true
		return t.resume(tid, 0)
	}
	return t.killOne(tid)
}

// killOne kills the process of a thread, which skips its call. All others go on.
func (t *tracer) killOne(tid int) error {
	t.result.Killed = true
	return unix.Kill(tid, unix.SIGKILL)
}
