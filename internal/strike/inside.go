//go:build linux

package strike

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// insideEnv tells the program that it is run by Run, and which calls it is to select.
const (
	insideEnv     = "NSRUN_STRIKE"
	insideChanges = "changes"
	insideLooks   = "looks"
)

// marker is an option that prctl(2) does not have.
const (
	marker = 0x6e737275
	begin  = 1
	end    = 2
)

// Begin is called by the traced program: from here on its calls count. In a program that
// Run did not start it does nothing.
//
// After the first Begin the process cannot gain privileges by execve any more.
func Begin() error {
	if os.Getenv(insideEnv) == "" {
		return nil
	}
	if !filtered {
		if err := filter(); err != nil {
			return fmt.Errorf("strike: install a filter: %w", err)
		}
		filtered = true
	}
	mark(begin)
	return nil
}

// End is called by the traced program: from here on its calls do not count, and none fails.
func End() {
	if filtered {
		mark(end)
	}
}

var filtered bool // Begin and End belong to one goroutine

func mark(what uintptr) { _, _, _ = unix.RawSyscall(unix.SYS_PRCTL, marker, what, 0) }

// filter makes the kernel stop all threads, and those to come, at the calls of the table and at marks.
func filter() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	prog := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	add := func(nr uintptr) {
		prog = append(prog, unix.SockFilter{Code: equal, Jf: 1, K: uint32(nr)}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_TRACE})
	}
	add(unix.SYS_PRCTL)
	for nr := range calls {
		add(nr)
	}
	if os.Getenv(insideEnv) == insideLooks {
		for nr := range looks {
			add(nr)
		}
	}
	prog = append(prog, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	tid, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return errno
	}
	if tid != 0 {
		return fmt.Errorf("thread %d has another filter", tid)
	}
	return nil
}
