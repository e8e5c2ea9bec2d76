//go:build linux

package attempts

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What quick finds out about the path in quick.path, which has size bytes. Everything here is nosplit, see quick.go. An
// answer that is not sure is no: the Observer then looks itself.

// open opens path in the sandbox.
//
//go:nosplit
//go:norace
func (q *quick) open(flags uint64) (uintptr, syscall.Errno) {
	q.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT}
	fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT2, uintptr(q.root), uintptr(unsafe.Pointer(&q.path)), uintptr(unsafe.Pointer(&q.how)), unsafe.Sizeof(q.how), 0, 0)
	return fd, e
}

// allowed reports whether nothing refuses a call with the existing file fd, like Observer.outcome.
//
//go:nosplit
//go:norace
func (q *quick) allowed(fd, size uintptr, d deed, mode uint32) bool {
	switch {
	case d == looks || d == makes: // what is there cannot be made, in the sandbox or not
		return true
	case d == removes:
		return q.changesIn(size, d)
	case d == changes:
		return q.writable(fd)
	case mode&unix.W_OK != 0 && !q.writable(fd):
		return false
	}
	return q.may(fd, mode&(unix.R_OK|unix.W_OK|unix.X_OK)) && !(d == executes && q.setID(fd))
}

// setID reports whether a program has a set-user-id bit.
//
//go:nosplit
//go:norace
func (q *quick) setID(fd uintptr) bool {
	_, _, e := syscall.RawSyscall(unix.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&q.stat)), 0)
	return e != 0 || q.stat.Mode&unix.S_ISUID != 0
}

// may reports whether the processes have access to an open file.
//
//go:nosplit
//go:norace
func (q *quick) may(fd uintptr, mode uint32) bool {
	q.proc[0] = 0
	_, _, e := syscall.RawSyscall6(unix.SYS_FACCESSAT2, fd, uintptr(unsafe.Pointer(&q.proc)), uintptr(mode), unix.AT_EMPTY_PATH|unix.AT_EACCESS, 0, 0)
	if e != 0 || !q.lacking {
		return e == 0
	}
	_, _, e = syscall.RawSyscall(unix.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&q.stat)), 0)
	return e == 0 && q.stat.Mode&mode == mode
}

// writable reports whether an open file is on a mount that is not read-only.
//
//go:nosplit
//go:norace
func (q *quick) writable(fd uintptr) bool {
	_, _, e := syscall.RawSyscall(unix.SYS_FSTATFS, fd, uintptr(unsafe.Pointer(&q.statfs)), 0)
	return e == 0 && q.statfs.Flags&unix.ST_RDONLY == 0
}

// changesIn reports whether nothing refuses to make or remove the name, like Observer.changesIn.
//
//go:nosplit
//go:norace
func (q *quick) changesIn(size uintptr, d deed) bool {
	at := q.parent(size)
	if at == size {
		return false
	}
	fd, e := q.openTo(at)
	if e != 0 {
		return false
	}
	ok := q.may(fd, unix.W_OK|unix.X_OK) && q.writable(fd)
	if ok && d != makes {
		_, _, e = syscall.RawSyscall6(unix.SYS_STATX, fd, uintptr(unsafe.Pointer(&q.path[(at+1)&(2*unix.PathMax-1)])), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, uintptr(unsafe.Pointer(&q.statx)), 0)
		ok = e == 0 && q.statx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return ok
}

// absent reports whether what the sandbox does not have at path is missing on the host, too, so that nothing hides it.
// It looks there without the symbolic links, like Observer.real.
//
//go:nosplit
//go:norace
func (q *quick) absent(size uintptr) bool {
	for end := size; ; {
		at := q.parent(end)
		if at == end {
			return false
		}
		if fd, e := q.openTo(at); e == 0 {
			ok := q.hostLacks(fd, at, size)
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
			return ok
		}
		end = at
	}
}

// hostLacks reports whether the host does not have what follows in path after the directory fd, which ends at at.
//
//go:nosplit
//go:norace
func (q *quick) hostLacks(fd, at, size uintptr) bool {
	q.proc[q.number(q.put(0, "/proc/self/fd/"), uint32(fd))&63] = 0
	fdcwd := unix.AT_FDCWD
	n, _, e := syscall.RawSyscall6(unix.SYS_READLINKAT, uintptr(fdcwd), uintptr(unsafe.Pointer(&q.proc)), uintptr(unsafe.Pointer(&q.text)), unix.PathMax, 0, 0)
	if e != 0 || q.text[0] != '/' || n+size-at >= unix.PathMax {
		return false
	}
	if n == 1 {
		n = 0 // path has the slash
	}
	for i := range size - at + 1 {
		q.text[(n+i)&(unix.PathMax-1)] = q.path[(at+i)&(2*unix.PathMax-1)]
	}
	_, _, e = syscall.RawSyscall(unix.SYS_FACCESSAT, uintptr(fdcwd), uintptr(unsafe.Pointer(&q.text)), unix.F_OK)
	return e != 0
}

// parent returns where the slash is before the last name of the first end bytes of path. If that is not the name of a
// file ("", ".", ".."), it returns end.
//
//go:nosplit
//go:norace
func (q *quick) parent(end uintptr) uintptr {
	at := end
	for at > 0 && q.path[(at-1)&(2*unix.PathMax-1)] != '/' {
		at--
	}
	switch n := end - at; {
	case at == 0 || n == 0, n <= 2 && q.path[at&(2*unix.PathMax-1)] == '.' && q.path[(end-1)&(2*unix.PathMax-1)] == '.':
		return end
	}
	return at - 1
}

// openTo opens the directory that is the first at bytes of path.
//
//go:nosplit
//go:norace
func (q *quick) openTo(at uintptr) (uintptr, syscall.Errno) {
	end := max(at, 1) & (2*unix.PathMax - 1)
	next := q.path[end]
	q.path[end] = 0
	fd, e := q.open(0)
	q.path[end] = next
	return fd, e
}
