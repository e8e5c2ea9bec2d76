//go:build linux

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// What the image does: see doc.go. The rules of child.go apply here too.

// ControlFd is the image's end of the socket to the program, StatusFd the status pipe of
// one that runs a Program itself.
const (
	ControlFd = 3
	StatusFd  = 4
)

// maxFirstFds is how many descriptors a first Program can have: the socket,
// namespaces to join, a cgroup, the status pipe.
const maxFirstFds = 8

// Main is the image's only function; stack is the stack as the kernel made it. With no argument besides its name the
// image is the launcher, otherwise it runs one Program itself. Main does not return. (The linkname is for assembly in
// another package.)
//
//go:linkname Main
//go:nosplit
//go:norace
func Main(stack unsafe.Pointer) {
	// Otherwise its name would be the number of a descriptor.
	name := [2]uint64{'n' | 's'<<8 | 'r'<<16 | 'u'<<24 | 'n'<<32}
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0)
	heedChildren()
	keepEffectiveIDs()
	var base unsafe.Pointer
	if argc := *(*uintptr)(stack); argc > 1 {
		base = receive(ControlFd, StatusFd, 0)
	} else {
		base = serve()
	}
	if uintptr(base) < 4096 {
		exit(125)
	}
	run(base)
}

// heedChildren sets SIGCHLD to its default. If the program ignores it, this process and its clones would ignore it too,
// and nobody would learn of the command's end. (It is a function because the stack is short.)
//
//go:noinline
//go:nosplit
//go:norace
func heedChildren() {
	var handler [4]uintptr // struct sigaction: SIG_DFL
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&handler)), 0, 8, 0, 0)
}

// keepEffectiveIDs makes the real ids equal to the effective ones, if the program has changed only these (seteuid(2)).
// In a sandbox the real ids would not be mapped, and without namespaces the command could switch back to them. And the
// kernel does not let a process that was executed with different ids write its own id maps in /proc.
//
//go:noinline
//go:nosplit
//go:norace
func keepEffectiveIDs() {
	uid, _, _ := syscall.RawSyscall(syscall.SYS_GETUID, 0, 0, 0)
	euid, _, _ := syscall.RawSyscall(syscall.SYS_GETEUID, 0, 0, 0)
	gid, _, _ := syscall.RawSyscall(syscall.SYS_GETGID, 0, 0, 0)
	egid, _, _ := syscall.RawSyscall(syscall.SYS_GETEGID, 0, 0, 0)
	if uid == euid && gid == egid {
		return
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, egid, egid, egid); e != 0 {
		exit(uintptr(e))
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, euid, euid, euid); e != 0 {
		exit(uintptr(e))
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 1, 0)
}

// serve makes clones for the program until that ends. In a clone it returns the Program.
// The program has started the image with all signals blocked.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func serve() unsafe.Pointer {
	const controlSize = 256
	CloseRange(ControlFd+1, 0xffffffff)
	// This process must not keep the program's directory busy.
	root := uint64('/')
	syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(&root)), 0, 0)
	mem, _, e := syscall.RawSyscall6(sysMmap, 0, controlSize+InlineMax, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
	if e != 0 {
		exit(uintptr(e))
	}
	block, fds := pointer(mem+controlSize), pointer(mem+16) // behind the header of a control message
	for {
		n, count := receiveFirst(mem, controlSize)
		pid, errno := uintptr(0), syscall.Errno(0)
		if n == 0 {
			exit(0)
		}
		if count < 2 || count > maxFirstFds {
			exit(uintptr(syscall.EBADMSG))
		}
		var a cloneArgs
		status, rest := *word(fds, uintptr(4*(count-1))), count
		if n >= prog.HeaderSize && header(block).Flags&cloneIntoCgroup != 0 {
			// The last but one, which the clone does not get.
			a.cgroup = uint64(*word(fds, uintptr(4*(count-2))))
			*word(fds, uintptr(4*(count-2))) = status
			rest--
		}
		if errno = prepare(block, n, fds, rest, &a); errno == 0 {
			if pid, errno = fork(&a, block); errno == 0 && pid == 0 {
				return block
			}
		}
		report(uintptr(status), prog.RecordPid, uint32(pid), uint32(errno), 0)
		if rest < count {
			syscall.RawSyscall(sysClose, uintptr(a.cgroup), 0, 0)
		}
		for i := uint32(0); i < rest; i++ {
			syscall.RawSyscall(sysClose, uintptr(*word(fds, uintptr(4*i))), 0, 0)
		}
	}
}

// receiveFirst reads one message into mem, the control messages at its beginning, and
// returns its length and how many descriptors came with it. At the end n is 0.
//
//go:nosplit
//go:norace
func receiveFirst(mem, controlSize uintptr) (n uintptr, fds uint32) {
	var iov [2]uintptr
	iov[0], iov[1] = mem+controlSize, InlineMax
	var msg syscall.Msghdr
	msg.Iov = (*syscall.Iovec)(unsafe.Pointer(&iov))
	msg.Iovlen = 1
	msg.Control = (*byte)(pointer(mem))
	msg.Controllen = uint64(controlSize)
	for {
		var e syscall.Errno
		n, _, e = syscall.RawSyscall(sysRecvmsg, ControlFd, uintptr(unsafe.Pointer(&msg)), cmsgCloexec)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n == 0 {
			return 0, 0
		}
		break
	}
	if msg.Controllen >= 16 {
		fds = uint32(*(*uint64)(pointer(mem))-16) / 4
	}
	return n, fds
}
