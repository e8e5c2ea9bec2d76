//go:build linux

package strike

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ntPrstatus      = 1
	ntArmSystemCall = 0x404
)

// skip makes the system call that the thread is about to do not happen, and return errno.
func skip(tid int, errno unix.Errno) error {
	var regs unix.PtraceRegsArm64
	if err := unix.PtraceGetRegSetArm64(tid, ntPrstatus, &regs); err != nil {
		return err
	}
	regs.Regs[0] = -uint64(errno)
	if err := unix.PtraceSetRegSetArm64(tid, ntPrstatus, &regs); err != nil {
		return err
	}
	nr := int32(-1)
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&nr))}
	iov.SetLen(int(unsafe.Sizeof(nr)))
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SETREGSET, uintptr(tid), ntArmSystemCall, uintptr(unsafe.Pointer(&iov)), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
