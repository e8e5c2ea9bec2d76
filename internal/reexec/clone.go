//go:build linux

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// How a process that runs a Program is made. The rules of child.go apply here too: the
// launcher has no Go runtime.

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

// prepare fills in what only the process that clones can know: the n descriptors, 32 bits
// each, and how to clone.
//
//go:nosplit
//go:norace
func prepare(base unsafe.Pointer, size uintptr, fds unsafe.Pointer, n uint32, a *cloneArgs) syscall.Errno {
	h := header(base)
	if size < prog.HeaderSize || h.Magic != prog.Magic || uintptr(h.Size) != size || h.NFds != n {
		return syscall.EBADMSG
	}
	for i := uint32(0); i < n; i++ {
		*word(base, uintptr(h.Fds+4*i)) = *word(fds, uintptr(4*i))
	}
	relocate(base)
	a.flags, a.exitSignal = h.Flags|cloneClearSighand, uint64(syscall.SIGCHLD)
	if a.flags&cloneParent != 0 {
		a.exitSignal = 0 // the clone inherits it
	}
	return 0
}

// forkAndRun clones; the child never returns from it.
//
//go:noinline
//go:nosplit
//go:norace
func forkAndRun(a *cloneArgs, base unsafe.Pointer) (pid uintptr, errno syscall.Errno) {
	if pid, errno = fork(a, base); errno == 0 && pid == 0 {
		run(base)
	}
	return pid, errno
}

// fork clones.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func fork(a *cloneArgs, base unsafe.Pointer) (pid uintptr, errno syscall.Errno) {
	size := cloneArgsSize
	if a.flags&cloneIntoCgroup != 0 {
		size = unsafe.Sizeof(*a)
	}
	pid, _, errno = syscall.RawSyscall(sysClone3, uintptr(unsafe.Pointer(a)), size, 0)
	if refused(errno) && a.flags&cloneIntoCgroup == 0 {
		// Filters of containers refuse clone3(2), because they cannot see its flags.
		flags := uintptr(a.flags&^cloneClearSighand) | uintptr(a.exitSignal)
		if pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0); errno == 0 && pid == 0 {
			clearHandlers(base)
		}
	}
	if errno != 0 {
		pid = 0 // and not -1
	}
	return pid, errno
}

// clearHandlers sets all signals that are not ignored to their defaults. The handlers are the
// Go runtime's, which does not exist here.
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
