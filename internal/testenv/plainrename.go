//go:build linux

package testenv

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PlainRename lets renameat2 fail for good where it has flags, as file systems do that know none: in this thread and
// what it makes, or in all threads of the process.
func PlainRename(all bool) error {
	const load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const flags = 16 + 4*8 // the offset of the fifth argument
	prog := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: equal, K: unix.SYS_RENAMEAT2, Jf: 3},
		{Code: load, K: flags},
		{Code: equal, K: 0, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	return filter(prog, all)
}

// filter installs a seccomp filter in this thread, or in all threads of the process.
func filter(prog []unix.SockFilter, all bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	how := uintptr(0)
	if all {
		how = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, how, uintptr(unsafe.Pointer(&p))); e != 0 {
		return e
	}
	return nil
}

// WithPlainRename calls f in a thread that ends after it, and sees such file systems.
func WithPlainRename(f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with its filter
		err := PlainRename(false)
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}
