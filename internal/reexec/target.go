//go:build linux

package reexec

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// Where mounts go: paths of the sandbox that may not exist yet. The rules of
// child.go apply here too. Paths are in the Program's block, which is this
// process's own: they are cut in place, and mended.

const (
	sysMkdirat = syscall.SYS_MKDIRAT
	sysMknodat = syscall.SYS_MKNODAT

	oPath          = 0x200000
	resolveNoMagic = 0x2
	resolveInRoot  = 0x10
	atEmptyPath    = 0x1000
	statxType      = 0x1
	statxMode      = 0x1c // offset of stx_mode in struct statx
	statxRdev      = 0x80 // of stx_rdev_major, stx_rdev_minor
	statxMntID     = 0x1000
	statxMnt       = 0x90 // of stx_mnt_id
	procMagic      = 0x9fa0
	noTree         = ^uintptr(0)
	mountPointDir  = 0o755
	mountPointFile = syscall.S_IFREG | 0o444

	// Words of Header.Scratch.
	howAt   = 0 // struct open_how, three words
	emptyAt = 3 // an empty string
	statxAt = 4 // struct statx, 32 words
	triesAt = 36
)

// openAt opens a path inside root as a place: openat2(2) with RESOLVE_IN_ROOT.
//
//go:nosplit
//go:norace
func openAt(base unsafe.Pointer, root, path, flags uintptr) (fd uintptr, e syscall.Errno) {
	s := &header(base).Scratch
	s[howAt], s[howAt+1], s[howAt+2] = uint64(oPath|syscall.O_CLOEXEC|flags), 0, resolveInRoot|resolveNoMagic
	for s[triesAt] = openTries; s[triesAt] > 0; s[triesAt]-- {
		fd, _, e = syscall.RawSyscall6(sysOpenat2, root, path, uintptr(unsafe.Pointer(&s[howAt])), 24, 0, 0)
		if e != syscall.EAGAIN {
			break
		}
	}
	if refused(e) {
		fd, e = lookUp(root, path, (*[3]uint64)(unsafe.Pointer(&s[howAt])))
	}
	return fd, e
}

// fileType is the type of what fd refers to, as in st_mode.
//
//go:nosplit
//go:norace
func fileType(base unsafe.Pointer, fd uintptr) (uint32, syscall.Errno) {
	s := &header(base).Scratch
	s[emptyAt] = 0
	_, _, e := syscall.RawSyscall6(sysStatx, fd, uintptr(unsafe.Pointer(&s[emptyAt])), atEmptyPath, statxType,
		uintptr(unsafe.Pointer(&s[statxAt])), 0)
	if refused(e) {
		e = statInstead(fd, uintptr(unsafe.Pointer(&s[emptyAt])), atEmptyPath, uintptr(unsafe.Pointer(&s[statxAt])))
	}
	return *word(unsafe.Pointer(&s[statxAt]), statxMode) & syscall.S_IFMT, e
}

// device fails with ENODEV if fd is not the character device major, minor.
//
//go:nosplit
//go:norace
func device(base unsafe.Pointer, fd uintptr, major, minor uint32) syscall.Errno {
	t, e := fileType(base, fd)
	st := unsafe.Pointer(&header(base).Scratch[statxAt])
	if e == 0 && (t != syscall.S_IFCHR || *word(st, statxRdev) != major || *word(st, statxRdev+4) != minor) {
		e = syscall.ENODEV
	}
	return e
}

// procfs fails with ENOTSUP if fd is on another file system, where a write would have
// no effect and no error.
//
//go:nosplit
//go:norace
func procfs(base unsafe.Pointer, fd uintptr) syscall.Errno {
	st := &header(base).Scratch // struct statfs
	_, _, e := syscall.RawSyscall(syscall.SYS_FSTATFS, fd, uintptr(unsafe.Pointer(st)), 0)
	if e == 0 && st[0] != procMagic {
		e = syscall.ENOTSUP
	}
	return e
}

// sameMount fails with EINVAL if two descriptors are of different mounts.
//
//go:nosplit
//go:norace
func sameMount(base unsafe.Pointer, a, b uintptr) syscall.Errno {
	x, e := mount(base, a)
	if e != 0 {
		return e
	}
	y, e := mount(base, b)
	if e == 0 && x != y {
		e = syscall.EINVAL
	}
	return e
}

// place opens path inside root, where its last component is not a symbolic link.
// An error other than ENOENT says its part.
//
//go:nosplit
//go:norace
func place(base unsafe.Pointer, root, path uintptr) (fd uintptr, e syscall.Errno) {
	if fd, e = openAt(base, root, path, syscall.O_NOFOLLOW); e != 0 {
		if e != syscall.ENOENT {
			e = prog.PartParents.WithErrno(e)
		}
		return fd, e
	}
	t, e := fileType(base, fd)
	if e == 0 && t == syscall.S_IFLNK {
		e = prog.PartSymlink.WithErrno(syscall.ELOOP)
	}
	return fd, e
}

// mismatch fails if tree cannot be mounted on target, because only one of them is a directory.
//
//go:nosplit
//go:norace
func mismatch(base unsafe.Pointer, tree, target uintptr) syscall.Errno {
	from, to := uint32(syscall.S_IFDIR), uint32(0)
	e := syscall.Errno(0)
	if tree != noTree {
		from, e = fileType(base, tree)
	}
	if e == 0 {
		to, e = fileType(base, target)
	}
	switch {
	case e != 0:
		return e
	case from == syscall.S_IFDIR && to != syscall.S_IFDIR:
		return prog.PartNotDir.WithErrno(syscall.ENOTDIR)
	case from != syscall.S_IFDIR && to == syscall.S_IFDIR:
		return prog.PartNotFile.WithErrno(syscall.EISDIR)
	}
	return 0
}

//go:nosplit
//go:norace
func at(path, i uintptr) *byte { return (*byte)(pointer(path + i)) }

// makeDirs opens the directory path inside root, and makes what is missing of it
// with mode perm. From the root down, each is made in its parent as the kernel
// sees it, then looked up by its whole path, because it may be a link that was
// there.
//
//go:nosplit
//go:norace
func makeDirs(base unsafe.Pointer, root, path, perm uintptr) (fd uintptr, e syscall.Errno) {
	if fd, e = openAt(base, root, path, syscall.O_DIRECTORY); e != syscall.ENOENT {
		return fd, e
	}
	fd = root
	for begin := uintptr(0); ; {
		end := begin
		for *at(path, end) != 0 && *at(path, end) != '/' {
			end++
		}
		c := *at(path, end)
		*at(path, end) = 0
		_, _, e = syscall.RawSyscall(sysMkdirat, fd, path+begin, perm)
		var next uintptr
		if e == 0 || e == syscall.EEXIST {
			next, e = openAt(base, root, path, syscall.O_DIRECTORY)
		}
		*at(path, end) = c
		if fd != root {
			syscall.RawSyscall(sysClose, fd, 0, 0)
		}
		if e != 0 || c == 0 {
			return next, e
		}
		fd, begin = next, end+1
	}
}

// links makes hard links of one file in dir. The names have slashes between them; what has one of them already stays.
//
//go:nosplit
//go:norace
func links(from, file, dir, names uintptr) syscall.Errno {
	for begin := uintptr(0); ; {
		end := begin
		for *at(names, end) != 0 && *at(names, end) != '/' {
			end++
		}
		c := *at(names, end)
		*at(names, end) = 0
		_, _, e := syscall.RawSyscall6(syscall.SYS_LINKAT, from, file, dir, names+begin, 0, 0)
		*at(names, end) = c
		if e != 0 && e != syscall.EEXIST {
			return e
		}
		if c == 0 {
			return 0
		}
		begin = end + 1
	}
}

// leafOf returns where the last component of a path begins.
//
//go:nosplit
//go:norace
func leafOf(path uintptr) (leaf uintptr) {
	for i := uintptr(0); *at(path, i) != 0; i++ {
		if *at(path, i) == '/' {
			leaf = i + 1
		}
	}
	return leaf
}

// target opens where a mount goes. If it is missing it is made, after its
// parents: a directory or a file, like the root of tree; a directory where there
// is not a tree.
//
//go:nosplit
//go:norace
func target(base unsafe.Pointer, root, path, tree, perm uintptr) (fd uintptr, e syscall.Errno) {
	if fd, e = place(base, root, path); e != syscall.ENOENT {
		return fd, e
	}
	leaf := leafOf(path)
	dir := root
	if leaf > 0 {
		*at(path, leaf-1) = 0
		dir, e = makeDirs(base, root, path, perm)
		*at(path, leaf-1) = '/'
		if e != 0 {
			return fd, prog.PartParents.WithErrno(e)
		}
	}
	t := uint32(syscall.S_IFDIR)
	e = 0
	if tree != noTree {
		t, e = fileType(base, tree)
	}
	switch {
	case e != 0:
	case t == syscall.S_IFDIR:
		_, _, e = syscall.RawSyscall(sysMkdirat, dir, path+leaf, mountPointDir)
	default:
		_, _, e = syscall.RawSyscall6(sysMknodat, dir, path+leaf, mountPointFile, 0, 0, 0)
	}
	if dir != root {
		syscall.RawSyscall(sysClose, dir, 0, 0)
	}
	if e != 0 && e != syscall.EEXIST {
		return fd, prog.PartTarget.WithErrno(e)
	}
	return place(base, root, path)
}
