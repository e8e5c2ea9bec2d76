//go:build linux

package strike

import "golang.org/x/sys/unix"

// skip makes the system call that the thread is about to do not happen, and return errno.
func skip(tid int, errno unix.Errno) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	regs.Orig_rax = ^uint64(0)
	regs.Rax = -uint64(errno)
	return unix.PtraceSetRegs(tid, &regs)
}
