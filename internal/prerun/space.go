//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"
)

// leastSpace is how much address space the runtime needs to start, in bytes. With less it crashes with a stack trace.
const leastSpace = 768 << 20

const noSpace = "nsrun: the address space is limited to less than 768 MiB, and the Go runtime needs as much (try: ulimit -v unlimited)\n"

// needSpace ends the process if RLIMIT_AS does not let the runtime start.
func needSpace(stack unsafe.Pointer) {
	var limit syscall.Rlimit
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_AS, 0, uintptr(unsafe.Pointer(&limit)), 0, 0)
	if e != 0 || limit.Cur >= leastSpace {
		return
	}
	status := uintptr(125)
	if argv := unsafe.Add(stack, 8); *(*int)(stack) > 1 && text(argv, 1) != "" && text(argv, 1)[0] == '-' {
		status = 1 // as bubblewrap's
	}
	syscall.RawSyscall(syscall.SYS_WRITE, 2, uintptr(unsafe.Pointer(unsafe.StringData(noSpace))), uintptr(len(noSpace)))
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, status, 0, 0)
}
