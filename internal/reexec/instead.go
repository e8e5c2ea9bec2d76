//go:build linux

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// What is done if the kernel does not have a system call, or a container's filter refuses it: the same, with older
// calls. The rules of child.go apply here too.

const (
	sysFaccessat2     = 439
	setModeFilter     = 1
	atSymlinkNofollow = 0x100
	atNoAutomount     = 0x800

	statxIno = 32  // offset of stx_ino in struct statx
	statxDev = 136 // of stx_dev_major, stx_dev_minor

	// openMost is the kernel's default of fs.nr_open. No descriptor is larger.
	openMost = 1 << 20
)

// instead does a refused operation in another way. e is the error of the refusal, and the result if there is no other
// way.
//
//go:nosplit
//go:norace
func instead(base unsafe.Pointer, o *prog.Op, e syscall.Errno) (r uintptr, err syscall.Errno) {
	a0, a1, a2 := arg(base, o, 0), arg(base, o, 1), arg(base, o, 2)
	if a2 == ^uintptr(0) { // no address: only the answer of the kernel is wanted
		return 0, e
	}
	switch o.Nr {
	case sysOpenat2:
		return within(base, a0, a1, (*[3]uint64)(pointer(a2)))
	case sysStatx:
		return 0, statInstead(a0, a1, a2, arg(base, o, 4))
	case sysSeccomp:
		if a0 == setModeFilter && a1 == 0 {
			_, _, e = syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, seccompFilter, a2)
		}
	case sysFaccessat2:
		r, _, e = syscall.RawSyscall(syscall.SYS_FACCESSAT, a0, a1, a2)
	case sysPrlimit64:
		if a0 == 0 && arg(base, o, 3) == 0 {
			_, _, e = syscall.RawSyscall(syscall.SYS_SETRLIMIT, a1, a2, 0)
		}
	case sysCloseRange:
		closeInstead(a0, a1)
		e = 0
	}
	return r, e
}

// within is lookUp with RESOLVE_NO_XDEV. A path that has left a mount does not lead back to it.
//
//go:nosplit
//go:norace
func within(base unsafe.Pointer, dir, path uintptr, how *[3]uint64) (fd uintptr, e syscall.Errno) {
	if how[2]&(resolveInRoot|resolveBeneath) == 0 {
		return 0, syscall.ENOSYS
	}
	fd, e = lookUp(dir, path, how)
	if e == 0 && how[2]&resolveNoXdev != 0 {
		if e = sameMount(base, dir, fd); e != 0 {
			syscall.RawSyscall(sysClose, fd, 0, 0)
			if e == syscall.EINVAL {
				e = syscall.EXDEV
			}
		}
	}
	return fd, e
}

// refused reports whether an error may mean that the call itself is refused.
//
//go:nosplit
//go:norace
func refused(e syscall.Errno) bool {
	return e == syscall.ENOSYS || e == syscall.EPERM || e == syscall.EACCES
}

// statInstead does statx(2) by fstatat(2). It returns the type and the identity of a file.
//
//go:nosplit
//go:norace
func statInstead(dir, path, flags, to uintptr) syscall.Errno {
	_, _, e := syscall.RawSyscall6(sysFstatat, dir, path, to, flags&(atEmptyPath|atSymlinkNofollow|atNoAutomount), 0, 0)
	if e != 0 {
		return e
	}
	st := (*syscall.Stat_t)(pointer(to)) // which is smaller
	mode, ino, dev, rdev := st.Mode, st.Ino, uint64(st.Dev), uint64(st.Rdev)
	out := pointer(to)
	*(*uint16)(unsafe.Add(out, statxMode)) = uint16(mode)
	*(*uint64)(unsafe.Add(out, statxIno)) = ino
	*word(out, statxDev), *word(out, statxDev+4) = major(dev), minor(dev)
	*word(out, statxRdev), *word(out, statxRdev+4) = major(rdev), minor(rdev)
	return 0
}

// major and minor take a device's number apart, see makedev(3).
//
//go:nosplit
//go:norace
func major(dev uint64) uint32 { return uint32(dev>>8)&0xfff | uint32(dev>>32)&^0xfff }

//go:nosplit
//go:norace
func minor(dev uint64) uint32 { return uint32(dev)&0xff | uint32(dev>>12)&^0xff }

// mount returns the id of the mount that fd is on, from statx(2) or from /proc.
//
//go:nosplit
//go:norace
func mount(base unsafe.Pointer, fd uintptr) (id uint64, e syscall.Errno) {
	s := &header(base).Scratch
	s[emptyAt] = 0
	st := unsafe.Pointer(&s[statxAt])
	_, _, e = syscall.RawSyscall6(sysStatx, fd, uintptr(unsafe.Pointer(&s[emptyAt])), atEmptyPath, statxMntID, uintptr(st), 0)
	if e == 0 && *word(st, 0)&statxMntID != 0 {
		return s[statxAt+statxMnt/8], 0
	}
	if e != 0 && !refused(e) {
		return 0, e
	}
	return mountListed(base, fd)
}

// mountListed returns that id from /proc.
//
//go:nosplit
//go:norace
func mountListed(base unsafe.Pointer, fd uintptr) (id uint64, e syscall.Errno) {
	s := &header(base).Scratch
	st := unsafe.Pointer(&s[statxAt])
	// "/proc/self/fdinfo/" and the number.
	s[statxAt], s[statxAt+1] = '/'|'p'<<8|'r'<<16|'o'<<24|'c'<<32|'/'<<40|'s'<<48|'e'<<56, 'l'|'f'<<8|'/'<<16|'f'<<24|'d'<<32|'i'<<40|'n'<<48|'f'<<56
	s[statxAt+2], s[statxAt+3], s[statxAt+4] = 'o'|'/'<<8, 0, 0
	digits := uintptr(1)
	for n := fd; n >= 10; n /= 10 {
		digits++
	}
	for n, i := fd, digits; i > 0; i-- {
		*at(uintptr(st), 17+i) = '0' + byte(n%10)
		n /= 10
	}
	info, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, uintptr(st), syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return 0, syscall.ENOSYS
	}
	n, _, e := syscall.RawSyscall6(syscall.SYS_READ, info, uintptr(st), 8*32-1, 0, 0, 0)
	syscall.RawSyscall6(sysClose, info, 0, 0, 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	*at(uintptr(st), n) = 0
	for i := uintptr(0); i+8 < n; i++ {
		const word = 'm' | 'n'<<8 | 't'<<16 | '_'<<24 | 'i'<<32 | 'd'<<40 | ':'<<48 | '\t'<<56
		if *(*uint64)(unsafe.Add(st, i)) != word {
			continue
		}
		for i += 8; *at(uintptr(st), i) >= '0' && *at(uintptr(st), i) <= '9'; i++ {
			id = 10*id + uint64(*at(uintptr(st), i)-'0')
		}
		return id, 0
	}
	return 0, syscall.ENOSYS
}

// CloseRange closes descriptors, like close_range(2).
//
//go:nosplit
//go:norace
func CloseRange(first, last uintptr) {
	if _, _, e := syscall.RawSyscall(sysCloseRange, first, last, 0); e != 0 {
		closeInstead(first, last)
	}
}

// closeInstead is CloseRange by close(2), for the descriptors that /proc lists, or for all that can exist.
//
//go:nosplit
//go:norace
func closeInstead(first, last uintptr) {
	const size = 4096
	dir := noTree
	mem, _, e := syscall.RawSyscall6(sysMmap, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
	if e == 0 {
		path := (*[2]uint64)(pointer(mem)) // "/proc/self/fd"
		path[0], path[1] = '/'|'p'<<8|'r'<<16|'o'<<24|'c'<<32|'/'<<40|'s'<<48|'e'<<56, 'l'|'f'<<8|'/'<<16|'f'<<24|'d'<<32
		fd, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, mem, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0, 0, 0)
		if e == 0 {
			dir = fd
		}
	}
	listed := false
	for dir != noTree {
		n, _, e := syscall.RawSyscall(syscall.SYS_GETDENTS64, dir, mem, size)
		if listed = e == 0 && n == 0; e != 0 || n == 0 {
			break
		}
		for entry := mem; entry < mem+n; entry += uintptr(*(*uint16)(pointer(entry + 16))) { // struct linux_dirent64
			fd, name := uintptr(0), entry+19
			for *at(name, 0) >= '0' && *at(name, 0) <= '9' {
				fd = 10*fd + uintptr(*at(name, 0)-'0')
				name++
			}
			if name > entry+19 && fd >= first && fd <= last && fd != dir {
				syscall.RawSyscall(sysClose, fd, 0, 0)
			}
		}
	}
	if dir != noTree {
		syscall.RawSyscall(sysClose, dir, 0, 0)
	}
	if e == 0 {
		syscall.RawSyscall(syscall.SYS_MUNMAP, mem, size, 0)
	}
	for fd := first; !listed && fd <= last && fd < openMost; fd++ {
		syscall.RawSyscall(sysClose, fd, 0, 0)
	}
}
