//go:build linux

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// PID 1, and the process that replaces it without a PID namespace. It waits for the command, passes signals on, and
// enforces the time limit. The rules of child.go apply here too.

// settle prepares this process for its work as PID 1, after the command was started: it gives up what it does not need.
//
//go:nosplit
//go:norace
func settle(base unsafe.Pointer, status uintptr) {
	h := header(base)
	if h.Failed != 0 {
		exit(125)
	}
	report(status, prog.RecordStarted, 0, 0, 0)
	closeOthers(h, uint32(status))
	// struct __user_cap_header_struct, followed by the sets, which are all empty.
	h.Scratch[0], h.Scratch[1], h.Scratch[2], h.Scratch[3] = capVersion3, 0, 0, 0
	syscall.RawSyscall(sysCapset, uintptr(unsafe.Pointer(&h.Scratch[0])), uintptr(unsafe.Pointer(&h.Scratch[1])), 0)

	for i := uint64(0); i < h.NFilters; i++ {
		program := *(*uint64)(pointer(uintptr(h.Filters + 8*i)))
		if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, seccompFilter, uintptr(program)); e != 0 {
			exit(125)
		}
	}
}

// await is reap without signals. It makes few system calls, because filters may refuse the others.
//
//go:nosplit
//go:norace
func await(h *prog.Header, cmd, status uintptr) {
	code := uintptr(0)
	for {
		var ws uint32
		pid, _, e := syscall.RawSyscall6(sysWait4, ^uintptr(0), uintptr(unsafe.Pointer(&ws)), 0, 0, 0, 0)
		switch {
		case e == syscall.EINTR:
		case e == syscall.ECHILD && cmd == 0:
			exit(code)
		case e != 0:
			exit(125)
		case pid == cmd:
			report(status, prog.RecordExit, ws, 0, 0)
			if code = exitCode(ws); h.Fork&prog.ForkLinger == 0 {
				end(h, code)
			}
			syscall.RawSyscall(sysClose, status, 0, 0)
			cmd = 0
		}
	}
}

// untilEnd returns how many nanoseconds the command has left. Zero: there is no limit. When no time is left, it asks
// the command to end, and later kills everything; then the result is negative.
//
//go:nosplit
//go:norace
func untilEnd(h *prog.Header, now *[2]int64, cmd, status uintptr) int64 {
	next := h.Ask
	if next == 0 {
		next = h.End
	}
	if next == 0 {
		return 0
	}
	syscall.RawSyscall(sysClock, clockMonotonic, uintptr(unsafe.Pointer(now)), 0)
	if left := next - now[0]*1e9 - now[1]; left > 0 {
		return left
	}
	if cmd != 0 {
		report(status, prog.RecordTimeout, 0, 0, 0)
	}
	sig := uintptr(syscall.SIGTERM)
	if h.Ask != 0 {
		h.Ask = 0
	} else {
		h.End = 0
		sig = uintptr(syscall.SIGKILL)
		if reachesAll(h) {
			cmd = ^uintptr(0) // -1: everything else in the sandbox
		}
	}
	if cmd == 0 {
		return -1
	}
	if _, _, e := syscall.RawSyscall(sysKill, cmd, sig, 0); e != 0 && e != syscall.ESRCH && h.End == 0 && isInit() {
		// A filter refuses kill(2). All end with PID 1.
		report(status, prog.RecordExit, uint32(syscall.SIGKILL), 0, 0)
		exit(128 + uintptr(syscall.SIGKILL))
	}
	return -1
}

// isInit reports whether this is PID 1, and not only the command's parent.
//
//go:nosplit
//go:norace
func isInit() bool {
	self, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	return self == 1
}

// reachesAll reports whether a signal to all processes reaches those of the sandbox, and no others.
//
//go:nosplit
//go:norace
func reachesAll(h *prog.Header) bool { return h.Fork&prog.ForkDomain != 0 || isInit() }

// scoped reports whether this process cannot send a signal to its parent, which is outside its Landlock domain. If it
// could, it would be able to kill all processes of this user. It must be able to send one to itself: where a filter
// refuses kill(2), nothing could end the command.
//
//go:nosplit
//go:norace
func scoped() bool {
	parent, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	_, _, e := syscall.RawSyscall(sysKill, parent, 0, 0)
	self, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	_, _, refused := syscall.RawSyscall(sysKill, self, 0, 0)
	return e == syscall.EPERM && refused == 0
}

// end ends this process, and everything in the sandbox. If this is PID 1, the kernel does the latter. In a Landlock
// domain, one kill(2) reaches all its processes at once, so that none can escape by forking quickly; this process,
// which is the parent of all orphans, waits until they are gone.
//
//go:nosplit
//go:norace
func end(h *prog.Header, code uintptr) {
	if h.Fork&prog.ForkDomain != 0 {
		syscall.RawSyscall(sysKill, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		for {
			_, _, e := syscall.RawSyscall6(sysWait4, ^uintptr(0), 0, waitAll, 0, 0, 0)
			if e != 0 && e != syscall.EINTR {
				break
			}
		}
	}
	exit(code)
}

// outside reports whether the sender of a signal is outside the sandbox: it has no number in this PID namespace, or, if
// that is shared, it is the process that started the sandbox. No process in a Landlock domain can send a signal to this
// one.
//
//go:nosplit
//go:norace
func outside(h *prog.Header, sender uint32) bool {
	if sender == 0 || h.Fork&prog.ForkDomain != 0 {
		return true
	}
	parent, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	return parent == uintptr(sender) && !isInit()
}

// exitCode returns the exit status that shells use for a wait status.
//
//go:nosplit
//go:norace
func exitCode(ws uint32) uintptr {
	if ws&0x7f != 0 {
		return 128 + uintptr(ws&0x7f)
	}
	return uintptr(ws>>8) & 0xff
}

// forget discards signals of the terminal that came before there was a command. The command did not get them, so reap
// must not take a signal that somebody passes on for a copy of them.
//
//go:nosplit
//go:norace
func forget(h *prog.Header) {
	var now [2]int64
	terminal := uint64(1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGQUIT-1))
	for e := syscall.Errno(0); e == 0; {
		_, _, e = syscall.RawSyscall6(sysSigwait, uintptr(unsafe.Pointer(&terminal)), uintptr(unsafe.Pointer(&h.Scratch)), uintptr(unsafe.Pointer(&now)), 8, 0, 0)
	}
}

// reap is PID 1 of the sandbox from the command's execve to its end. It reaps all processes. If it is asked to, it
// passes on the signals that somebody outside sends to it. It ends with the command, and because it is PID 1, all other
// processes end with it; or, if it is to linger, it ends when no process is left. It holds the status pipe, the
// descriptors that it was told to hold, and no capability. No process can trace it, because the Program made it
// undumpable before the fork. If the PID namespace is shared, it is only the command's parent, and ends with it.
//
// Signals from the terminal reach the command directly, because it is in the same process group. PID 1 gets them from
// the kernel, too. If a parent outside passes its own copy on, the command must not get the signal twice.
//
// It also enforces the command's time limit, because the program that started the sandbox may be stopped.
//
// It returns if a filter does not allow it to wait for signals. It is long because nosplit functions share one small
// stack, and each part of the loop would need its state as parameters.
//
//go:nosplit
//go:norace
func reap(base unsafe.Pointer, cmd, status uintptr) {
	h := header(base)
	info := &h.Scratch // siginfo_t
	var now [2]int64
	stopped := false   // everything in the sandbox was stopped on request
	var echoOf uintptr // the last signal that came from the kernel, and when
	var echoAt int64
	code := uintptr(0) // the command's, when it has ended
	all := ^uint64(0)
	for {
		wait := uintptr(0)
		if next := untilEnd(h, &now, cmd, status); next != 0 {
			if next < 0 {
				continue
			}
			now[0], now[1] = next/1e9, next%1e9
			wait = uintptr(unsafe.Pointer(&now))
		}
		sig, _, e := syscall.RawSyscall6(sysSigwait, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(info)), wait, 8, 0, 0)
		if e == syscall.EINTR || e == syscall.EAGAIN { // after a stop; when a time has come
			continue
		}
		if e != 0 {
			return // the first time already
		}
		if sig == uintptr(syscall.SIGCHLD) {
			for {
				var ws uint32
				var pid uintptr
				pid, _, e = syscall.RawSyscall6(sysWait4, ^uintptr(0), uintptr(unsafe.Pointer(&ws)), syscall.WNOHANG, 0, 0, 0)
				if e != 0 || pid == 0 {
					break
				}
				if pid == cmd {
					report(status, prog.RecordExit, ws, 0, 0)
					if h.Fork&prog.ForkLinger != 0 {
						syscall.RawSyscall(sysClose, status, 0, 0)
						code, cmd = exitCode(ws), 0
						continue
					}
					end(h, exitCode(ws))
				}
			}
			if cmd == 0 && e == syscall.ECHILD {
				exit(code)
			}
			continue
		}
		if sig == prog.RequestEnd && h.Fork&prog.ForkDomain != 0 {
			syscall.RawSyscall(sysKill, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
			continue // the command's end is what ends this process
		}
		origin := int32(info[1])  // si_code
		sender := uint32(info[2]) // in this namespace; 0: outside
		if origin <= 0 && !outside(h, sender) || h.Fork&prog.ForkForward == 0 {
			continue
		}
		syscall.RawSyscall(sysClock, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
		t := now[0]*1e9 + now[1]
		if origin == siKernel {
			echoOf, echoAt = sig, t
			continue
		}
		if echoOf == sig && t-echoAt < echoWindow {
			echoOf = 0
			continue
		}
		to := cmd
		if reachesAll(h) {
			to = ^uintptr(0) // -1: everything else in the sandbox
		}
		switch {
		case cmd == 0:
		case sig == prog.RequestSignal && (origin == 0 || origin == prog.RequestCode && info[3] == prog.RequestStop): // 0: SI_USER
			syscall.RawSyscall(sysKill, to, uintptr(syscall.SIGSTOP), 0)
			stopped = true
		case sig == uintptr(syscall.SIGCONT) && origin == prog.RequestCode && info[3] == prog.RequestContinue: // it woke this process
		case sig == uintptr(syscall.SIGCONT), sig == prog.RequestSignal && origin == prog.RequestCode && info[3] == prog.RequestContinue:
			if !stopped {
				to = cmd
			}
			syscall.RawSyscall(sysKill, to, uintptr(syscall.SIGCONT), 0)
			stopped = false
		default:
			syscall.RawSyscall(sysKill, cmd, sig, 0)
		}
	}
}
