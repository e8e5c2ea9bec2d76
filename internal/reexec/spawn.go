//go:build linux && !nsrun_image

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// Spawn runs the Program in block in a clone of this process and returns the
// clone's process id. fds are the descriptors that the Program wants, the write
// end of the status pipe last; -1 stands for a closed one. The caller keeps its
// copies. The block is changed and can be run only once. If its flags have
// CLONE_INTO_CGROUP, the cgroup's descriptor is the last but one. The Program does
// not get it, and does not count it.
//
// The clone is a copy of this process's memory: call it in small processes only
// (the launcher, the nsrun command). It dies when the calling thread does, so
// that thread must live as long as the process.
func Spawn(block []byte, fds []int) (pid int, err syscall.Errno) {
	base := unsafe.Pointer(unsafe.SliceData(block))
	var a cloneArgs
	if n := len(fds) - 2; len(block) >= int(prog.HeaderSize) && header(base).Flags&cloneIntoCgroup != 0 {
		if n < 0 {
			return 0, syscall.EBADMSG
		}
		a.cgroup = uint64(fds[n])
		fds = append(fds[:n:n], fds[n+1])
	}
	numbers := make([]int32, len(fds))
	for i, fd := range fds {
		numbers[i] = int32(fd)
	}
	if errno := prepare(base, uintptr(len(block)), unsafe.Pointer(unsafe.SliceData(numbers)), uint32(len(fds)), &a); errno != 0 {
		return 0, errno
	}
	beforeFork()
	r, errno := forkAndRun(&a, base)
	afterFork()
	return int(r), errno
}

// SpawnFirst is Spawn for a process in which the Go runtime has not started; it may
// be in any thread, which is the only one. There are no handlers that the clone
// would have to lose.
func SpawnFirst(block []byte, status int32) (pid int, err syscall.Errno) {
	base := unsafe.Pointer(unsafe.SliceData(block))
	h := header(base)
	if len(block) < int(prog.HeaderSize) || h.NFds != 1 {
		return 0, syscall.EBADMSG
	}
	*word(base, uintptr(h.Fds)) = uint32(status)
	relocate(base)
	r, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(h.Flags)|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && r == 0 {
		run(base)
	}
	return int(r), errno
}
