//go:build linux

package notify

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions in this file can be called between runtime.entersyscallblock and runtime.exitsyscall: they do not
// allocate, lock, or grow the stack.

// WaitRaw is Wait. polled is room for the kernel's answer.
//
//go:nosplit
//go:norace
func (l Listener) WaitRaw(stop int, polled *[2]unix.PollFd) bool {
	for {
		*polled = [2]unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
		_, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(polled)), 2, 0, 0, 0, 0)
		if ended, call := answered(polled, e); ended {
			return call
		}
	}
}

// ReceiveRaw is Receive.
//
//go:nosplit
//go:norace
func (l Listener) ReceiveRaw(n *Notification) syscall.Errno {
	for {
		*n = Notification{}
		if _, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n))); e != syscall.EINTR {
			return e
		}
	}
}

// ProceedRaw is Proceed.
//
//go:nosplit
//go:norace
func (l Listener) ProceedRaw(id uint64) {
	r := reply{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	for {
		if _, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r))); e != syscall.EINTR {
			return
		}
	}
}

// ReadRaw copies a caller's string, up to the end of its first page, and returns the number of bytes. 0: it cannot be
// read. It needs the same rights as ReadMemory.
//
//go:nosplit
//go:norace
func ReadRaw(pid uint32, at uint64, to *[unix.PathMax]byte, page uint64) uintptr {
	local := unix.Iovec{Base: &to[0]}
	local.Len = min(unix.PathMax, page-at%page)
	remote := [2]uintptr{uintptr(at), uintptr(local.Len)}
	n, _, e := syscall.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if e != 0 {
		return 0
	}
	return n
}
