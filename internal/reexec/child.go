//go:build linux

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// This file has what runs in a cloned process, from the clone to execve; pid1.go has what PID 1 of the sandbox does
// after that. The rules are those of forkAndExecInChild1 in the standard library's syscall package:
//
//   - no allocation, no lock, no channel, no map, no defer, no panic: only the thread that cloned exists here, and the
//     Go scheduler does not know of it;
//   - every function is nosplit: runtime_BeforeFork poisoned the stack guard, so that a function that would grow the
//     stack crashes instead;
//   - norace: the race detector's memory is not for this process;
//   - all memory comes from the block of the Program, from this stack, or from mmap;
//   - all signals stay blocked until the Program restores the mask, right before execve; handlers were reset by
//     CLONE_CLEAR_SIGHAND.

const (
	sysMmap        = syscall.SYS_MMAP
	sysRecvmsg     = syscall.SYS_RECVMSG
	sysPread       = syscall.SYS_PREAD64
	sysCapset      = syscall.SYS_CAPSET
	sysFcntl       = syscall.SYS_FCNTL
	sysDup3        = syscall.SYS_DUP3
	sysClose       = syscall.SYS_CLOSE
	sysWait4       = syscall.SYS_WAIT4
	sysWrite       = syscall.SYS_WRITE
	sysKill        = syscall.SYS_KILL
	sysExitGroup   = syscall.SYS_EXIT_GROUP
	sysSigwait     = syscall.SYS_RT_SIGTIMEDWAIT
	sysClock       = syscall.SYS_CLOCK_GETTIME
	sysExecve      = syscall.SYS_EXECVE
	sysCloseRange  = 436
	atFdcwd        = ^uintptr(99)
	sysOpenat2     = 437
	capVersion3    = 0x20080522
	clockMonotonic = 1
	cmsgCloexec    = 0x40000000
	siKernel       = 0x80
	waitAll        = 0x40000000 // __WALL
	echoWindow     = 500e6      // nanoseconds, see reap
	cloneParent    = 0x8000
	prSetSeccomp   = 22
	seccompFilter  = 2

	// openTries is how often openat2(2) is called while it says EAGAIN: somebody,
	// somewhere in the system, renamed or mounted something while it followed "..".
	openTries = 100
)

// header is the beginning of the Program at base.
//
//go:nosplit
//go:norace
func header(base unsafe.Pointer) *prog.Header { return (*prog.Header)(base) }

// word is the 32-bit word at base plus off.
//
//go:nosplit
//go:norace
func word(base unsafe.Pointer, off uintptr) *uint32 { return (*uint32)(unsafe.Add(base, off)) }

//go:nosplit
//go:norace
func slot(base unsafe.Pointer, i uint64) *uint64 {
	return (*uint64)(unsafe.Add(base, uintptr(header(base).Slots)+8*uintptr(i)))
}

// arg is the value of the n-th argument of o.
//
//go:nosplit
//go:norace
func arg(base unsafe.Pointer, o *prog.Op, n uint) uintptr {
	v := *(*uint64)(unsafe.Add(unsafe.Pointer(&o.Args), 8*uintptr(n)))
	switch o.Kind >> (2 * n) & 3 {
	case prog.KindPtr:
		return uintptr(base) + uintptr(v)
	case prog.KindSlot:
		return uintptr(*slot(base, v))
	}
	return uintptr(v)
}

// relocate turns the offsets in the data into addresses.
//
//go:nosplit
//go:norace
func relocate(base unsafe.Pointer) {
	h := header(base)
	for i := uint32(0); i < h.NRel; i++ {
		r := *word(base, uintptr(h.Rel+4*i))
		*(*uint64)(unsafe.Add(base, uintptr(r))) += uint64(uintptr(base))
	}
}

//go:nosplit
//go:norace
func exit(code uintptr) {
	for {
		syscall.RawSyscall(sysExitGroup, code, 0, 0)
	}
}

// report writes a Record to the status pipe. It does not matter if nobody is left to
// read it.
//
//go:nosplit
//go:norace
func report(status uintptr, kind, value, errno, op uint32) {
	r := prog.Record{Kind: kind, Value: value, Errno: errno, Op: op}
	for {
		_, _, e := syscall.RawSyscall(sysWrite, status, uintptr(unsafe.Pointer(&r)), prog.RecordSize)
		if e != syscall.EINTR {
			return
		}
	}
}

// run walks the Program at base. It does not return. It is long because each
// operation that is not a system call is one of its cases: nosplit functions share
// one small stack, on which a call for each would not fit.
//
//go:nosplit
//go:norace
//go:nocheckptr
func run(base unsafe.Pointer) {
	h := header(base)
	status := uintptr(*word(base, uintptr(h.Fds+4*(h.NFds-1))))
	var execErrno uint32 // the most telling failure of Exec so far
	for i := uint32(0); ; i++ {
		if i >= h.NOps {
			report(status, prog.RecordFail, h.Stage, uint32(syscall.ENOSYS), i)
			exit(125)
		}
		o := (*prog.Op)(unsafe.Add(base, uintptr(h.Ops)+uintptr(i)*prog.OpSize))
		var r uintptr
		var e syscall.Errno
		switch o.Nr {
		default:
			for try := 0; try < openTries; try++ {
				r, _, e = syscall.RawSyscall6(uintptr(o.Nr), arg(base, o, 0), arg(base, o, 1),
					arg(base, o, 2), arg(base, o, 3), arg(base, o, 4), arg(base, o, 5))
				if e != syscall.EAGAIN || o.Nr != sysOpenat2 {
					break
				}
			}
			if refused(e) {
				r, e = instead(base, o, e)
			}
			if e == 0 && o.Kind&prog.FlagFull != 0 && r != arg(base, o, 2) {
				e = syscall.ENOSPC
			}
		case prog.NrBranch:
			if *word(nil, arg(base, o, 0))&uint32(o.Args[1]) == uint32(o.Args[2]) {
				i += uint32(o.OK)
			}
			continue
		case prog.NrJump:
			// The skip of a success.
		case prog.NrFail:
			e = syscall.Errno(o.Args[0])
		case prog.NrInstall:
			e = install(base, uint32(o.Args[0]))
			status = uintptr(h.NFds-1) - uintptr(o.Args[1])
			if e != 0 { // it is not there yet, and another file is
				status = uintptr(*word(base, uintptr(h.Fds+4*(h.NFds-1))))
			}
		case prog.NrReceive:
			next := receive(uintptr(o.Args[0]), status, arg(base, o, 1))
			if next == nil {
				exit(0) // nobody needs the sandbox any more
			}
			if uintptr(next) < 4096 {
				e = syscall.Errno(uintptr(next))
				break
			}
			base = next
			h = header(base)
			i = ^uint32(0)
			continue
		case prog.NrTarget:
			r, e = target(base, arg(base, o, 0), arg(base, o, 1), arg(base, o, 2), arg(base, o, 3))
		case prog.NrMakeDirs:
			r, e = makeDirs(base, arg(base, o, 0), arg(base, o, 1), arg(base, o, 2))
		case prog.NrLinks:
			e = links(arg(base, o, 0), arg(base, o, 1), arg(base, o, 2), arg(base, o, 3))
		case prog.NrMismatch:
			e = mismatch(base, arg(base, o, 0), arg(base, o, 1))
		case prog.NrSame:
			e = same(arg(base, o, 0), arg(base, o, 1), arg(base, o, 2), status)
		case prog.NrWipe:
			for at, n := arg(base, o, 0), arg(base, o, 1); n > 0; n-- {
				*(*byte)(pointer(at + n - 1)) = 0
			}
		case prog.NrDevice:
			e = device(base, arg(base, o, 0), uint32(o.Args[1]), uint32(o.Args[2]))
		case prog.NrSameMnt:
			e = sameMount(base, arg(base, o, 0), arg(base, o, 1))
		case prog.NrProcfs:
			e = procfs(base, arg(base, o, 0))
		case prog.NrStore:
			*(*uint64)(pointer(arg(base, o, 0))) = uint64(arg(base, o, 1))
		case prog.NrHold:
			e = hold(h, uint32(arg(base, o, 0)))
		case prog.NrClone:
			r, _, e = syscall.RawSyscall6(syscall.SYS_CLONE, arg(base, o, 0)|cloneParent|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
			if e == 0 && r != 0 {
				report(status, prog.RecordPid, uint32(r), 0, i)
				exit(0)
			}
		case prog.NrFork:
			h.Fork = uint32(o.Args[0])
			h.Filters, h.NFilters = uint64(arg(base, o, 1)), o.Args[2]
			h.Ask, h.End = int64(o.Args[3]), int64(o.Args[4])
			if h.Fork&prog.ForkDomain != 0 && !scoped() {
				e = syscall.EPERM
				break
			}
			forget(h)
			pid, errno := vfork()
			if errno != 0 {
				e = syscall.Errno(errno)
				break
			}
			if pid != 0 {
				// The command's process shared this stack frame until now, and may
				// have changed it, so nothing in it is used from here on.
				settle(base, status)
				if h := header(base); h.Fork&(prog.ForkForward|prog.ForkDomain) != 0 || h.Ask|h.End != 0 {
					reap(base, pid, status)
				}
				await(header(base), pid, status)
			}
		case prog.NrExec:
			e = execute(base, h, o)
			// As in execvp(3), the error of a file that exists but cannot be run
			// says more than that of a file that is missing further on.
			if execErrno == 0 || execErrno == uint32(syscall.ENOENT) || execErrno == uint32(syscall.ENOTDIR) {
				execErrno = uint32(e)
			}
		case prog.NrExecFail:
			e = syscall.Errno(execErrno)
		}
		if e == 0 {
			if o.Out != 0 {
				*slot(base, uint64(o.Out-1)) = uint64(r)
			}
			i += uint32(o.OK)
			continue
		}
		if e < 128 && *(*uint64)(unsafe.Add(unsafe.Pointer(&o.Tol), 8*uintptr(e>>6)))&(1<<(e&63)) != 0 {
			if o.Out != 0 {
				*slot(base, uint64(o.Out-1)) = noFile
			}
			i += uint32(o.Err)
			continue
		}
		h.Failed = 1
		report(status, prog.RecordFail, o.Step|h.Stage, uint32(e), i)
		exit(125)
	}
}

// execute executes a program, and returns why it could not.
//
//go:nosplit
//go:noinline
//go:norace
func execute(base unsafe.Pointer, h *prog.Header, o *prog.Op) syscall.Errno {
	path := arg(base, o, 0)
	_, _, e := syscall.RawSyscall(sysExecve, path, arg(base, o, 1), arg(base, o, 2))
	if argv := arg(base, o, 3); e == syscall.ENOEXEC && argv != 0 && (arg(base, o, 4)&prog.ExecTextOnly == 0 || text(h, path)) {
		*(*uint64)(pointer(argv + 8)) = uint64(path)
		_, _, e = syscall.RawSyscall(sysExecve, uintptr(*(*uint64)(pointer(argv))), argv, arg(base, o, 2))
	}
	if e == syscall.EACCES && arg(base, o, 4)&prog.ExecExact != 0 {
		// Is it not executable, or in a directory that cannot be searched?
		if _, _, found := syscall.RawSyscall(syscall.SYS_FACCESSAT, atFdcwd, path, 0); found != 0 {
			return syscall.ENOENT
		}
	}
	return e
}

// text reports whether a file can be read and looks like a script: its first line has no byte 0.
//
//go:nosplit
//go:norace
func text(h *prog.Header, path uintptr) bool {
	fd, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return false
	}
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&h.Scratch)), unsafe.Sizeof(h.Scratch))
	syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	if e != 0 {
		return false
	}
	for i := uintptr(0); i < n; i++ {
		switch *(*byte)(unsafe.Add(unsafe.Pointer(&h.Scratch), i)) {
		case '\n':
			return true
		case 0:
			return false
		}
	}
	return true
}

// same fails with EEXIST, and reports the n bytes at found, if they are not the
// string want. It writes them together with their Record: the launcher reports to
// the same pipe meanwhile.
//
//go:nosplit
//go:norace
func same(want, found, n, status uintptr) syscall.Errno {
	i := uintptr(0)
	for i < n && *at(want, i) != 0 && *at(want, i) == *at(found, i) {
		i++
	}
	if i == n && *at(want, i) == 0 {
		return 0
	}
	r := prog.Record{Kind: prog.RecordText, Value: uint32(n)}
	parts := [4]uintptr{uintptr(unsafe.Pointer(&r)), prog.RecordSize, found, n} // two of struct iovec
	for {
		_, _, e := syscall.RawSyscall(syscall.SYS_WRITEV, status, uintptr(unsafe.Pointer(&parts)), 2)
		if e != syscall.EINTR {
			return syscall.EEXIST
		}
	}
}

// noFile is the value of a slot whose operation failed in a tolerated way: it has no descriptor.
const noFile = ^uint64(0)

// hold adds a descriptor to those that PID 1 keeps, in ascending order.
//
//go:nosplit
//go:norace
func hold(h *prog.Header, fd uint32) syscall.Errno {
	if h.NHeld == prog.MaxHeld {
		return syscall.EMFILE
	}
	i := h.NHeld
	for ; i > 0 && h.Held[(i-1)%prog.MaxHeld] > fd; i-- {
		h.Held[i%prog.MaxHeld] = h.Held[(i-1)%prog.MaxHeld]
	}
	h.Held[i%prog.MaxHeld] = fd
	h.NHeld++
	return 0
}

// closeOthers closes all descriptors but the held ones and the status pipe.
//
//go:nosplit
//go:norace
func closeOthers(h *prog.Header, status uint32) {
	if hold(h, status) != 0 {
		exit(125)
	}
	from := uint32(0)
	for i := uint32(0); i < h.NHeld; i++ {
		fd := h.Held[i%prog.MaxHeld]
		if fd > from {
			CloseRange(uintptr(from), uintptr(fd-1))
		}
		from = fd + 1
	}
	CloseRange(uintptr(from), 0xffffffff)
}

// install puts the passed descriptors to 0, 1, 2, …; the first keep of them
// survive execve. All others of this process are closed.
//
//go:nosplit
//go:norace
func install(base unsafe.Pointer, keep uint32) syscall.Errno {
	h := header(base)
	n := h.NFds
	// Descriptors at numbers that others need are moved out of the way first.
	for i := uint32(0); i < n; i++ {
		fd := (*int32)(unsafe.Add(base, uintptr(h.Fds+4*i)))
		if *fd >= 0 && uint32(*fd) < n && uint32(*fd) != i {
			r, _, e := syscall.RawSyscall(sysFcntl, uintptr(*fd), syscall.F_DUPFD_CLOEXEC, uintptr(n))
			if e != 0 {
				return e
			}
			*fd = int32(r)
		}
	}
	for i := uint32(0); i < n; i++ {
		fd := (*int32)(unsafe.Add(base, uintptr(h.Fds+4*i)))
		var e syscall.Errno
		switch cloexec := i >= keep; {
		case *fd < 0:
			syscall.RawSyscall(sysClose, uintptr(i), 0, 0)
		case uint32(*fd) != i && cloexec:
			_, _, e = syscall.RawSyscall(sysDup3, uintptr(*fd), uintptr(i), syscall.O_CLOEXEC)
		case uint32(*fd) != i:
			_, _, e = syscall.RawSyscall(sysDup3, uintptr(*fd), uintptr(i), 0)
		case cloexec:
			_, _, e = syscall.RawSyscall(sysFcntl, uintptr(i), syscall.F_SETFD, syscall.FD_CLOEXEC)
		default:
			_, _, e = syscall.RawSyscall(sysFcntl, uintptr(i), syscall.F_SETFD, 0)
		}
		if e != 0 {
			return e
		}
		*fd = int32(i)
	}
	CloseRange(uintptr(n), 0xffffffff)
	return 0
}

// Receive reads a Program from a socket and runs it. It is for processes that
// have no Go runtime; it does not return.
//
//go:nosplit
//go:norace
func Receive(sock, status uintptr) {
	base := receive(sock, status, 0)
	if uintptr(base) < 4096 {
		exit(125)
	}
	run(base)
}

// InlineMax is the size of a Program that travels in the message itself; a
// larger one is passed as a memory file.
const InlineMax = 96 << 10

// MaxFds is SCM_MAX_FD of the kernel.
const MaxFds = 253

// receive reads the next Program from a socket: the block itself, or, where the
// message holds only a Header, the block's content from the last descriptor of
// the message. The status pipe of this process becomes the last of its
// descriptors; behind it comes more, if that is not 0. It returns nil if the other end was closed, and an errno below
// 4096 where something failed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func receive(sock, status, more uintptr) unsafe.Pointer {
	const controlSize = 2048
	mem, _, e := syscall.RawSyscall6(sysMmap, 0, controlSize+InlineMax, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
	if e != 0 {
		return pointer(uintptr(e))
	}
	var iov [2]uintptr
	iov[0], iov[1] = mem+controlSize, InlineMax
	var msg syscall.Msghdr
	msg.Iov = (*syscall.Iovec)(unsafe.Pointer(&iov))
	msg.Iovlen = 1
	msg.Control = (*byte)(pointer(mem))
	msg.Controllen = controlSize
	var n uintptr
	for {
		n, _, e = syscall.RawSyscall(sysRecvmsg, sock, uintptr(unsafe.Pointer(&msg)), cmsgCloexec)
		if e != syscall.EINTR {
			break
		}
	}
	if e != 0 {
		return pointer(uintptr(e))
	}
	if n == 0 {
		return nil
	}
	base := pointer(mem + controlSize)
	h := header(base)
	if n < prog.HeaderSize || h.Magic != prog.Magic || h.NFds == 0 || h.NFds > MaxFds {
		return pointer(uintptr(syscall.EBADMSG))
	}
	// One control message: length, level, type, descriptors.
	fds := pointer(mem + 16)
	nfds := uint32(0)
	if msg.Controllen >= 16 {
		nfds = uint32(*(*uint64)(pointer(mem))-16) / 4
	}
	want := h.NFds - 1 // that have to come with it
	if more != 0 && want > 0 {
		want--
	}
	if uintptr(h.Size) != n {
		size := uintptr(h.Size)
		if nfds != want+1 || n != prog.HeaderSize {
			return pointer(uintptr(syscall.EBADMSG))
		}
		file := uintptr(*word(fds, uintptr(4*want)))
		mem, _, e = syscall.RawSyscall6(sysMmap, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
		if e != 0 {
			return pointer(uintptr(e))
		}
		for off := uintptr(0); off < size; {
			n, _, e = syscall.RawSyscall6(sysPread, file, mem+off, size-off, off, 0, 0)
			if e == syscall.EINTR {
				continue
			}
			if e != 0 || n == 0 {
				return pointer(uintptr(syscall.EBADMSG))
			}
			off += n
		}
		base = pointer(mem)
		h = header(base)
		nfds--
	}
	if nfds != want {
		return pointer(uintptr(syscall.EBADMSG))
	}
	for i := uint32(0); i < want; i++ {
		*word(base, uintptr(h.Fds+4*i)) = *word(fds, uintptr(4*i))
	}
	*word(base, uintptr(h.Fds+4*want)) = uint32(status)
	if more != 0 {
		*word(base, uintptr(h.Fds+4*(h.NFds-1))) = uint32(more)
	}
	relocate(base)
	return base
}

// pointer is a conversion that vet does not take for a mistake: the memory is
// not Go's.
//
//go:nosplit
//go:norace
func pointer(p uintptr) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(nil), p) }
