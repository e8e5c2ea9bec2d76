//go:build linux

package attempts

import (
	"bytes"
	"errors"
	"os"
	"path"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// try finds out whether a call is going to fail with a path of its own, and reports that. It asks the kernel, in the
// sandbox, with the caller's rights, before the call has changed anything.
func (o *Observer) try(n *notify.Notification, c *call) (failed bool) {
	name := o.name(n, c)
	if name == "" || !o.enter(n.PID) || strings.HasPrefix(name, "/proc/") {
		return false
	}
	d, flags, mode := c.asks(n)
	fd, err := o.open(name, flags)
	if err == nil {
		defer fd.Close()
	}
	others, known := &o.quick.failed, uint64(0)
	keeps := err != nil && reads(d, mode)
	if keeps {
		known = answer(unsafe.StringData(name+"\x00"), d, mode, errnoOf(err))
	}
	if keeps && others.has(known) {
		o.tried(n, name, d, true)
		return true
	}
	switch a := o.outcome(n, name, d, mode, fd, err); {
	case a.Err == 0:
		o.tried(n, name, d, err != nil)
		if d == executes && err == nil {
			o.setID(n, fd)
		}
		return c.deed == makes && err == nil
	case !o.tell(n, a):
		if keeps {
			others.add(known)
		}
		o.tried(n, name, d, true)
	}
	return true
}

// asks returns what a call does, the flags with which to look the path up, and the access that the call needs.
//
//go:nosplit
//go:norace
func (c *call) asks(n *notify.Notification) (d deed, flags uint64, mode uint32) {
	d = c.deed
	switch c.deed {
	case opens:
		d, flags, mode = opening(argument(n, c.mode))
	case truncates:
		d, flags, mode = opening(unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC)
	case asks:
		mode = uint32(argument(n, c.mode)) & 7
	case watches:
		mode = unix.R_OK
	case changes:
		mode = unix.W_OK
	case enters, executes:
		mode = unix.X_OK
	case connects:
		mode = unix.W_OK
	}
	if c.nofollow(n) {
		flags |= unix.O_NOFOLLOW
	}
	return d, flags, mode
}

// outcome returns the error that a call is going to fail with. Zero: it is not known to fail. fd is the file at the
// path, if that could be opened.
func (o *Observer) outcome(n *notify.Notification, name string, d deed, mode uint32, fd sys.FD, err error) (a Attempt) {
	if d == opens && mode&creates != 0 && err == unix.ENOENT {
		d = makes
	}
	a.Kind, a.Name = kindOf(d, mode), d == removes || d == places
	switch {
	case d == makes && err == nil, d == looks && err == nil, a.Name && (path.Base(name) == "." || path.Base(name) == ".."):
		return a // nowhere can "." and ".." be removed
	case d == makes && err == unix.ENOENT, d == places, d == removes && err == nil,
		// A program that copies a file because it could not rename it first removes the new name, which may be
		// missing.
		d == removes && err == unix.ENOENT && o.across == moved{n.PID, name}:
		a.Path, a.Err = o.changesIn(name, d)
	case err != nil:
		a.Path, a.Err = o.real(name), errnoOf(err)
	default:
		if a.Err = o.access(fd, d, mode); a.Err != 0 {
			a.Path = link(fd)
		} else if o.Unprivileged && d == changes {
			o.chown(n, fd, &a)
		}
	}
	return a
}

// creates is a bit of a mode: the file is made if it is missing.
const creates = 1 << 8

// opening returns what open(2) does, the flags with which to look the path up, and the access that is asked for.
//
//go:nosplit
//go:norace
func opening(arg uint64) (d deed, flags uint64, mode uint32) {
	if arg&unix.O_NOFOLLOW != 0 {
		flags = unix.O_NOFOLLOW
	}
	if arg&unix.O_PATH != 0 {
		return looks, flags, 0
	}
	switch arg & unix.O_ACCMODE {
	case unix.O_RDONLY:
		mode = unix.R_OK
	case unix.O_WRONLY:
		mode = unix.W_OK
	default:
		mode = unix.R_OK | unix.W_OK
	}
	if arg&unix.O_TRUNC != 0 {
		mode |= unix.W_OK
	}
	switch {
	case arg&unix.O_TMPFILE == unix.O_TMPFILE:
		return changes, flags, unix.W_OK
	case arg&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return makes, unix.O_NOFOLLOW, 0
	case arg&unix.O_CREAT != 0:
		mode |= creates
	}
	return opens, flags, mode
}

func kindOf(d deed, mode uint32) Kind {
	switch {
	case d == executes:
		return Exec
	case d == connects:
		return Unix
	case d == makes || d == removes || d == places || d == changes || mode&unix.W_OK != 0:
		return Write
	}
	return Read
}

// nofollow reports whether a call does not follow a symbolic link at the end of its path.
//
//go:nosplit
//go:norace
func (c *call) nofollow(n *notify.Notification) bool {
	switch c.flags {
	case none:
		return false
	case never:
		return true
	case follow:
		return n.Args[4]&unix.AT_SYMLINK_FOLLOW == 0
	case watch:
		return n.Args[2]&unix.IN_DONT_FOLLOW != 0
	}
	return argument(n, c.flags)&unix.AT_SYMLINK_NOFOLLOW != 0
}

// access returns the error with which the use of an existing file fails.
func (o *Observer) access(fd sys.FD, d deed, mode uint32) syscall.Errno {
	if mode&unix.W_OK == 0 && (d == opens || d == asks || d == enters || d == watches) { // most often
		return o.may(fd, mode)
	}
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil {
		return 0
	}
	kind := st.Mode & unix.S_IFMT
	plain := kind == unix.S_IFREG || kind == unix.S_IFDIR || kind == unix.S_IFLNK
	switch {
	case d == connects && kind != unix.S_IFSOCK:
		return unix.ECONNREFUSED
	case (d == changes || d == opens || d == asks) && mode&unix.W_OK != 0 && readOnly(fd) && (plain || d == changes):
		if d == opens && kind == unix.S_IFDIR {
			return 0 // it fails anyway
		}
		return unix.EROFS
	case d == changes || d == executes && kind == unix.S_IFDIR:
		return 0
	}
	return o.may(fd, mode)
}

// may returns the error that permissions cause for an access to a file. The bits of mode are R_OK, W_OK and X_OK, which
// are also those of a file's mode.
func (o *Observer) may(fd sys.FD, mode uint32) syscall.Errno {
	mode &= unix.R_OK | unix.W_OK | unix.X_OK
	if err := unix.Faccessat2(int(fd), "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS); err != nil || o.Root == nil {
		return errnoOf(err)
	}
	var st unix.Stat_t // this thread has root's rights to all files, and the processes do not
	if unix.Fstat(int(fd), &st) != nil || o.Root(st.Uid) && o.Root(st.Gid) {
		return 0
	}
	switch o.User {
	case st.Uid:
		mode <<= 6
	case st.Gid:
		mode <<= 3
	}
	if st.Mode&mode != mode {
		return unix.EACCES
	}
	return 0
}

// changesIn returns the error with which a change of a name fails, and the path that it is about: the directory, or the
// new file.
func (o *Observer) changesIn(name string, d deed) (string, syscall.Errno) {
	name = strings.TrimRight(name, "/")
	dir := path.Dir(name)
	fd, err := o.open(dir, 0)
	if err != nil {
		return o.real(name), errnoOf(err)
	}
	defer fd.Close()
	e, base := o.may(fd, unix.W_OK|unix.X_OK), ""
	if d == makes {
		base = path.Base(name)
	}
	if readOnly(fd) {
		e = unix.EROFS
	} else if last := path.Base(name); d != makes && isMount(fd, last) {
		e, base = unix.EBUSY, last
	}
	if e == 0 {
		return "", 0 // most often
	}
	return path.Join(link(fd), base), e
}

// isMount reports whether something is mounted at a name in a directory.
func isMount(dir sys.FD, name string) bool {
	var st unix.Statx_t
	return sys.Statx(int(dir), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st) == nil &&
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// A moved is a rename that failed.
type moved struct {
	thread uint32
	name   string // the new one
}

// crosses reports a rename or link that fails because its two paths are on different mounts. What would fail outside a
// sandbox too is not reported: one of a file that is missing, and a user's link to a file of others, which
// fs.protected_hardlinks refuses.
func (o *Observer) crosses(n *notify.Notification, list []call) bool {
	var mount [2]uint64
	var dirs [2]string
	for i := range list {
		name := o.name(n, &list[i])
		if name == "" || !o.enter(n.PID) {
			return false
		}
		o.across = moved{n.PID, strings.TrimRight(name, "/")}
		if i == 0 && !o.movable(o.across.name, list[0].deed == looks) {
			return false
		}
		fd, err := o.open(path.Dir(o.across.name), 0)
		if err != nil {
			return false
		}
		var st unix.Statx_t
		err = sys.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
		dirs[i] = link(fd)
		fd.Close()
		if err != nil {
			return false
		}
		mount[i] = st.Mnt_id
	}
	if mount[0] == mount[1] {
		o.across = moved{}
		return false
	}
	o.tell(n, Attempt{Kind: Write, From: dirs[0], Path: dirs[1], Name: list[0].deed == removes, Err: unix.EXDEV})
	return true
}

// movable reports whether a file is there, and if links are made to it, whether the caller may make them.
func (o *Observer) movable(name string, links bool) bool {
	fd, err := o.open(name, unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer fd.Close()
	var st unix.Stat_t
	return !links || unix.Fstat(int(fd), &st) == nil && int(st.Uid) == os.Geteuid() || o.Unprivileged || o.Root != nil ||
		o.may(fd, unix.R_OK|unix.W_OK) == 0
}

// readOnly reports whether a file is on a read-only mount.
func readOnly(fd sys.FD) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(fd), &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	_ = errors.As(err, &e)
	return e
}

// enter opens the root of the sandbox, and reports whether a process has it. What a process does below a root of its
// own, under other names than the policy has, is not observed.
func (o *Observer) enter(thread uint32) bool {
	if o.root == sys.None {
		if fd, err := unix.Open(notify.Proc(thread, "root"), unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
			o.root, o.quick.root = sys.FD(fd), fd
		}
	}
	return o.root != sys.None && (!o.roots || o.shares(thread))
}

// shares reports whether a thread has the sandbox's root.
func (o *Observer) shares(thread uint32) bool {
	var st, own unix.Statx_t
	const mask = unix.STATX_INO | unix.STATX_MNT_ID
	return sys.Statx(unix.AT_FDCWD, notify.Proc(thread, "root"), 0, mask, &own) == nil &&
		sys.Statx(int(o.root), "", unix.AT_EMPTY_PATH, mask, &st) == nil &&
		st.Ino == own.Ino && st.Mnt_id == own.Mnt_id && st.Dev_major == own.Dev_major && st.Dev_minor == own.Dev_minor
}

func (o *Observer) open(name string, flags uint64) (sys.FD, error) {
	fd, err := sys.Openat2(int(o.root), name, unix.O_PATH|flags, 0, unix.RESOLVE_IN_ROOT)
	if err != nil {
		return sys.None, err
	}
	return sys.FD(fd), nil
}

// real returns a path without symbolic links, as far as it exists.
func (o *Observer) real(name string) string {
	name = path.Clean(name)
	for near, rest := name, ""; ; near, rest = path.Dir(near), path.Join(path.Base(near), rest) {
		if fd, err := o.open(near, 0); err == nil {
			defer fd.Close()
			return path.Join(link(fd), rest)
		}
		if near == "/" {
			return name
		}
	}
}

// link returns the path in the sandbox of an open file.
func link(fd sys.FD) string {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlink(sys.ProcPath(int(fd)), b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// name returns the absolute path of a call, as the caller wrote it. Empty: there is none.
func (o *Observer) name(n *notify.Notification, c *call) string {
	var name string
	if takesAddress(n) {
		name = o.socketName(n)
	} else {
		name = o.string(n.PID, n.Args[c.path])
	}
	if name == "" || name[0] == '/' {
		return name
	}
	dir := int32(unix.AT_FDCWD)
	if c.dir != none {
		dir = int32(n.Args[c.dir])
	}
	k, err := unix.Readlink(notify.Base(n.PID, dir), o.text[:])
	if err != nil || k == 0 || o.text[0] != '/' {
		return ""
	}
	return string(o.text[:k]) + "/" + name
}

// string reads a string from a caller's memory. Empty: it cannot be read.
func (o *Observer) string(thread uint32, at uint64) string {
	text, _ := notify.ReadString(thread, uintptr(at), o.text[:])
	return text
}

// socketName returns the path of the unix socket that a call connects to or makes.
func (o *Observer) socketName(n *notify.Notification) string {
	const most = 110 // struct sockaddr_un
	at, size := addressOf(n)
	if size <= 2 || size > most || notify.ReadMemory(n.PID, uintptr(at), o.text[:size]) != 0 || o.text[0] != unix.AF_UNIX || o.text[1] != 0 {
		return ""
	}
	name, _, _ := bytes.Cut(o.text[2:size], []byte{0})
	return string(name)
}
