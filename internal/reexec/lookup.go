//go:build linux

package reexec

import (
	"syscall"
	"unsafe"
)

// What replaces openat2(2) if that is refused. It opens one component after the other, each below a descriptor of the
// one before it, and the kernel follows no link. The text of a link is followed here, inside the directory that the
// lookup must not leave. The rules of child.go apply here too. The stack has little room left here, so one function
// makes all system calls, and the state is in memory of its own, on which the other functions work.

const (
	resolveNoXdev  = 0x1
	resolveNoLinks = 0x4
	resolveBeneath = 0x8

	pathRoom = 4096 // PATH_MAX
	mostLink = 40   // as in the kernel
)

// A lookup is the state of looking up one path.
type lookup struct {
	how   [3]uint64 // struct open_how
	dir   uintptr   // the descriptor of the directory that it began in and must not leave
	at    uintptr   // the descriptor of the directory that it has reached
	again bool      // at has to be opened again, by the names in done
	links uint32

	name uintptr // the name of the current component
	last bool    // it is the last one
	dots uint32  // how many dots the name has, if it has nothing else; otherwise moreDots

	done uintptr // a buffer: the names from the beginning to at, each with a slash behind it
	len  uintptr // the length of these names
	pos  uintptr // how far in them at is, while it is opened again
	rest uintptr // a buffer with the rest of the path …
	left uintptr // … and where that begins
	text uintptr // a buffer with the text of a link …
	got  uintptr // … and its length
	none uintptr // an empty string
	stat uintptr // a struct stat
}

const moreDots = 3

// lookUp does openat2(2) below dir, with RESOLVE_IN_ROOT or RESOLVE_BENEATH. It ignores RESOLVE_NO_XDEV.
//
//go:nosplit
//go:norace
func lookUp(dir, path uintptr, how *[3]uint64) (fd uintptr, e syscall.Errno) {
	const size, place = 6 * pathRoom, oPath | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, _, e = syscall.RawSyscall6(sysMmap, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON, ^uintptr(0), 0)
	if e != 0 {
		return 0, e
	}
	l := (*lookup)(pointer(fd))
	l.how[0], l.how[1], l.how[2], l.dir, l.at = how[0], how[1], how[2], dir, noTree
	l.done, l.text, l.rest = fd+pathRoom, fd+2*pathRoom, fd+3*pathRoom
	l.left, l.again, l.none, l.stat = l.rest, true, fd+pathRoom/4, fd+pathRoom/2
	for e = l.follow(path); e == 0; {
		if l.again {
			if l.at != noTree {
				syscall.RawSyscall6(sysClose, l.at, 0, 0, 0, 0, 0)
				l.at = noTree
			}
			if fd, _, e = syscall.RawSyscall6(sysFcntl, l.dir, syscall.F_DUPFD_CLOEXEC, 0, 0, 0, 0); e != 0 {
				break
			}
			l.at, l.again, l.pos = fd, false, 0
			for l.cut() {
				fd, _, e = syscall.RawSyscall6(syscall.SYS_OPENAT, l.at, l.name, place|syscall.O_DIRECTORY, 0, 0, 0)
				if l.mend(); e != 0 {
					e = syscall.EAGAIN // it was a directory before: somebody renames
					break
				}
				syscall.RawSyscall6(sysClose, l.at, 0, 0, 0, 0, 0)
				l.at = fd
			}
			if e != 0 {
				break
			}
		}
		l.next()
		if l.dots == 2 {
			e = l.up()
			continue
		}
		if l.dots == moreDots {
			fd, _, e = syscall.RawSyscall6(syscall.SYS_OPENAT, l.at, l.name, place, 0, 0, 0)
			if e == syscall.ENOENT && l.last && l.how[0]&syscall.O_CREAT != 0 {
				e = 0
			} else if e != 0 {
				break
			} else {
				_, _, e = syscall.RawSyscall6(sysFstatat, fd, l.none, l.stat, atEmptyPath, 0, 0)
				if e == 0 && l.linked() {
					l.got, _, e = syscall.RawSyscall6(syscall.SYS_READLINKAT, fd, l.none, l.text, pathRoom-1, 0, 0)
					if e == 0 {
						e = l.through()
					}
					if e == 0 {
						e = l.follow(l.text)
					}
				} else if e == 0 && !l.last {
					if e = l.pass(); e == 0 {
						l.at, fd = fd, l.at
					}
				} else if e == 0 {
					l.dots = 1 // to be opened
				}
				syscall.RawSyscall6(sysClose, fd, 0, 0, 0, 0, 0)
				if e != 0 || l.dots == moreDots {
					continue
				}
			}
		}
		if l.last {
			fd, _, e = syscall.RawSyscall6(syscall.SYS_OPENAT, l.at, l.name, uintptr(l.how[0])|syscall.O_NOFOLLOW, uintptr(l.how[1]), 0, 0)
			break
		}
	}
	if l.at != noTree {
		syscall.RawSyscall6(sysClose, l.at, 0, 0, 0, 0, 0)
	}
	syscall.RawSyscall6(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(l)), size, 0, 0, 0, 0)
	return fd, e
}

// follow goes on with a text, which is the path or the text of a link, and with the rest of the path after it.
//
//go:nosplit
//go:norace
func (l *lookup) follow(text uintptr) syscall.Errno {
	n, left := uintptr(0), uintptr(0)
	for *at(text, n) != 0 {
		n++
	}
	for *at(l.left, left) != 0 {
		left++
	}
	switch {
	case n == 0:
		return syscall.ENOENT
	case n+left+2 > 3*pathRoom:
		return syscall.ENAMETOOLONG
	case *at(text, 0) == '/' && l.how[2]&resolveBeneath != 0:
		return syscall.EXDEV
	case *at(text, 0) == '/':
		l.again, l.len = true, 0
	}
	// The two places may overlap, so the copy begins at the end that is not overwritten.
	to := l.rest + n + 1
	for i := uintptr(0); i < left; i++ {
		if from := left - 1 - i; to > l.left {
			*at(to, from) = *at(l.left, from)
		} else {
			*at(to, i) = *at(l.left, i)
		}
	}
	*at(to, left) = 0
	for i := uintptr(0); i < n; i++ {
		*at(l.rest, i) = *at(text, i)
	}
	*at(l.rest, n) = 0
	if left > 0 {
		*at(l.rest, n) = '/'
	}
	l.left = l.rest
	return 0
}

// cut returns the next name in done, and ends it with a null byte; mend puts the slash back.
//
//go:nosplit
//go:norace
func (l *lookup) cut() bool {
	if l.pos >= l.len {
		return false
	}
	l.name = l.done + l.pos
	for *at(l.done, l.pos) != '/' {
		l.pos++
	}
	*at(l.done, l.pos) = 0
	return true
}

//go:nosplit
//go:norace
func (l *lookup) mend() {
	*at(l.done, l.pos) = '/'
	l.pos++
}

// next takes the next component, and finds out whether it is the last one. Empty components and "." after it only mean
// that it has to be a directory.
//
//go:nosplit
//go:norace
func (l *lookup) next() {
	l.name = l.left
	for *at(l.name, 0) == '/' {
		l.name++
	}
	end := l.name
	l.dots = 0
	for *at(end, 0) != 0 && *at(end, 0) != '/' {
		if *at(end, 0) == '.' && l.dots < moreDots {
			l.dots++
		} else {
			l.dots = moreDots
		}
		end++
	}
	rest := end
	for *at(rest, 0) == '/' || rest > end && *at(rest, 0) == '.' && (*at(rest, 1) == 0 || *at(rest, 1) == '/') {
		rest++
	}
	if l.last = *at(rest, 0) == 0; l.last && *at(end, 0) == '/' {
		l.how[0] |= syscall.O_DIRECTORY
	}
	*at(end, 0) = 0
	l.left = rest
	if l.dots == 0 { // the path is a slash
		l.dots = 1
		*at(l.text, 0), *at(l.text, 1) = '.', 0
		l.name = l.text
	}
}

// up goes to the parent directory. If the path ends there, "." is opened in it.
//
//go:nosplit
//go:norace
func (l *lookup) up() syscall.Errno {
	if l.len == 0 && l.how[2]&resolveBeneath != 0 {
		return syscall.EXDEV
	}
	if l.len > 0 {
		for l.len--; l.len > 0 && *at(l.done, l.len-1) != '/'; {
			l.len--
		}
		l.again = true
	}
	if l.last {
		l.left = l.rest
		*at(l.left, 0), *at(l.left, 1) = '.', 0
	}
	return 0
}

// linked reports whether the component is a link that is to be followed.
//
//go:nosplit
//go:norace
func (l *lookup) linked() bool {
	return l.mode() == syscall.S_IFLNK && (!l.last || l.how[0]&syscall.O_NOFOLLOW == 0)
}

//go:nosplit
//go:norace
func (l *lookup) mode() uint32 {
	return (*syscall.Stat_t)(pointer(l.stat)).Mode & syscall.S_IFMT
}

// through returns an error if the text of a link, which was read, may not be followed.
//
//go:nosplit
//go:norace
func (l *lookup) through() syscall.Errno {
	if l.links++; l.how[2]&resolveNoLinks != 0 || l.links > mostLink {
		return syscall.ELOOP
	}
	*at(l.text, l.got) = 0
	return 0
}

// pass adds the component to what is done.
//
//go:nosplit
//go:norace
func (l *lookup) pass() syscall.Errno {
	if l.mode() != syscall.S_IFDIR {
		return syscall.ENOTDIR
	}
	n := uintptr(0)
	for *at(l.name, n) != 0 {
		n++
	}
	if l.len+n+1 > pathRoom {
		return syscall.ENAMETOOLONG
	}
	for i := uintptr(0); i < n; i++ {
		*at(l.done, l.len+i) = *at(l.name, i)
	}
	*at(l.done, l.len+n) = '/'
	l.len += n + 1
	return 0
}
