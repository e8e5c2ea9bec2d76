//go:build linux

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

// vfork clones with CLONE_VM and CLONE_VFORK: no memory is copied, and the
// caller sleeps until the child executes or exits.
//
//go:noescape
func vfork() (pid, errno uintptr)

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls uint64

	setTid, setTidSize, cgroup uint64 // only for cloneIntoCgroup
}

// cloneArgsSize is the size of its first version.
const cloneArgsSize = unsafe.Offsetof(cloneArgs{}.setTid)

// cloneIntoCgroup puts the child into a cgroup (Linux 5.7).
const cloneIntoCgroup = 0x200000000

const sysClone3 = 435

// cloneClearSighand resets handlers in the child (Linux 5.5); here all of them
// are the Go runtime's.
const cloneClearSighand = 0x100000000

// Spawn runs the Program in block in a clone of this process and returns the
// clone's process id. fds are the descriptors that the Program wants, the write
// end of the status pipe last; -1 stands for a closed one. The caller keeps its
// copies. The block is changed and can be run only once. Where its flags have
// CLONE_INTO_CGROUP the cgroup's descriptor is the last but one; the Program, which
// does not get it, does not count it.
//
// The clone is a copy of this process's memory: call it in small processes only
// (the launcher, the nsrun command). It dies when the calling thread does, so
// that thread must live as long as the process.
func Spawn(block []byte, fds []int) (pid int, err syscall.Errno) {
	base := unsafe.Pointer(unsafe.SliceData(block))
	a := cloneArgs{exitSignal: uint64(syscall.SIGCHLD)}
	if n := len(fds) - 2; len(block) >= int(prog.HeaderSize) && header(base).Flags&cloneIntoCgroup != 0 {
		if n < 0 {
			return 0, syscall.EBADMSG
		}
		a.cgroup = uint64(fds[n])
		fds = append(fds[:n:n], fds[n+1])
	}
	if errno := prepare(base, len(block), fds); errno != 0 {
		return 0, errno
	}
	a.flags = header(base).Flags | cloneClearSighand
	if a.flags&syscall.CLONE_PARENT != 0 {
		a.exitSignal = 0 // the clone inherits it
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

// prepare fills in what only the process that clones can know.
func prepare(base unsafe.Pointer, size int, fds []int) syscall.Errno {
	h := header(base)
	if size < int(prog.HeaderSize) || h.Magic != prog.Magic || int(h.Size) != size || int(h.NFds) != len(fds) {
		return syscall.EBADMSG
	}
	for i, fd := range fds {
		*word(base, uintptr(h.Fds)+4*uintptr(i)) = uint32(int32(fd))
	}
	relocate(base)
	return 0
}

// forkAndRun clones; the child never returns from it.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func forkAndRun(a *cloneArgs, base unsafe.Pointer) (pid uintptr, errno syscall.Errno) {
	size := cloneArgsSize
	if a.flags&cloneIntoCgroup != 0 {
		size = unsafe.Sizeof(*a)
	}
	pid, _, errno = syscall.RawSyscall(sysClone3, uintptr(unsafe.Pointer(a)), size, 0)
	if (errno == syscall.ENOSYS || errno == syscall.EPERM) && a.flags&cloneIntoCgroup == 0 {
		// Filters of containers refuse it so, for they cannot look at the flags.
		flags := uintptr(a.flags&^cloneClearSighand) | uintptr(a.exitSignal)
		if pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0); errno == 0 && pid == 0 {
			clearHandlers(base)
		}
	}
	if errno == 0 && pid == 0 {
		run(base)
	}
	return pid, errno
}

// clearHandlers makes all signals default that are not ignored: handlers are the
// runtime's, which is not here.
//
//go:nosplit
//go:norace
func clearHandlers(base unsafe.Pointer) {
	s := &header(base).Scratch
	for n := uintptr(1); n <= 64; n++ {
		old, none := uintptr(unsafe.Pointer(&s[0])), uintptr(unsafe.Pointer(&s[4])) // struct sigaction
		s[4], s[5], s[6], s[7] = 0, 0, 0, 0
		if _, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, n, 0, old, 8, 0, 0); e == 0 && s[0] > 1 {
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, n, none, 0, 8, 0, 0)
		}
	}
}
