//go:build linux

package broker

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// Unix and netlink sockets if Landlock does not keep the command from connecting TCP: the kernel must not continue a
// call whose descriptor may be another socket by then. So the broker connects its own copy of the socket to its own
// copy of the address, and looks up the path where the caller would.

// local answers connect(2) of a socket that is no IP one.
func (c *call) local() (e syscall.Errno, later bool) {
	switch {
	case c.to.family() == unix.AF_UNSPEC:
		return c.to.connect(int(c.old)), false
	case c.domain == unix.AF_NETLINK:
		return c.netlink(), false
	case c.domain != unix.AF_UNIX:
		return syscall.EPERM, false
	case c.to.family() != unix.AF_UNIX || c.to.n <= 2 || c.to.n > unix.SizeofSockaddrUnix:
		return syscall.EINVAL, false
	case c.to.b[2] == 0 && !c.b.sandboxed(c.old):
		return syscall.EPERM, false // a name of the host's
	}
	if c.flags, e = fcntl(c.old, unix.F_GETFL, 0); e != 0 {
		return e, false
	}
	if c.to.b[2] == 0 {
		return c.connectUnix(&c.to)
	}
	// Not on the thread that answers: a file system may not answer.
	return c.wait(func() syscall.Errno {
		at, e := c.place()
		if e != 0 {
			return e
		}
		defer at.Close()
		to := c.to
		to.setPath(sys.ProcPath(int(at)))
		if e, full := c.connectNow(&to); !full {
			return e
		}
		return c.again(&to)
	})
}

// netlink connects to the kernel only. Other addresses need a privilege that this process may have and the caller has
// not.
func (c *call) netlink() syscall.Errno {
	const size = 12 // struct sockaddr_nl: family, pid, groups
	if c.to.family() != unix.AF_NETLINK || c.to.n < size {
		return syscall.EINVAL
	}
	if binary.NativeEndian.Uint64(c.to.b[4:]) != 0 {
		return syscall.EPERM
	}
	return c.to.connect(int(c.old))
}

// connectUnix connects without waiting, or starts a goroutine that waits.
func (c *call) connectUnix(to *sockaddr) (e syscall.Errno, later bool) {
	if e, full := c.connectNow(to); !full {
		return e, false
	}
	return c.wait(func() syscall.Errno { return c.again(to) })
}

// connectNow connects without waiting. full says that the listener has no room, and that the caller waits for it: then
// the socket keeps O_NONBLOCK.
func (c *call) connectNow(to *sockaddr) (e syscall.Errno, full bool) {
	waits := c.flags&unix.O_NONBLOCK == 0
	if waits { // as in itself
		if _, e := fcntl(c.old, unix.F_SETFL, c.flags|unix.O_NONBLOCK); e != 0 {
			return e, false
		}
	}
	e = plainly(func() syscall.Errno { return to.connect(int(c.old)) })
	if waits && e == syscall.EAGAIN {
		return 0, true
	}
	if waits {
		c.restore()
	}
	return e, false
}

// again connects until the listener has room, or nobody waits any more.
func (c *call) again(to *sockaddr) syscall.Errno {
	defer c.giveUp()
	timeout, started := c.timeout(), time.Now()
	for {
		time.Sleep(notify.Room(time.Since(started)))
		if e := plainly(func() syscall.Errno { return to.connect(int(c.old)) }); e != syscall.EAGAIN {
			return e
		}
		if e := c.ended(timeout, started, syscall.EAGAIN); e != 0 {
			return e
		}
	}
}

func (a *sockaddr) setPath(path string) {
	a.n = 2 + copy(a.b[2:], path)
	a.b[a.n] = 0
	a.n++
}

// place opens the socket that the path of the address leads to, as a place: in the caller's root, from the caller's
// directory.
func (c *call) place() (sys.FD, syscall.Errno) {
	path := c.to.b[2:c.to.n]
	if end := bytes.IndexByte(path, 0); end >= 0 {
		path = path[:end]
	}
	if e := c.task.look(); e != 0 {
		return sys.None, e
	}
	defer c.task.forget() // see wait
	if !c.task.ours() {
		return sys.None, syscall.EPERM
	}
	open := func(name string) sys.FD {
		fd, err := unix.Openat(int(c.task.proc), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return sys.None
		}
		return sys.FD(fd)
	}
	root, cwd := open("root"), open("cwd")
	defer root.Close()
	defer cwd.Close()
	if root == sys.None || cwd == sys.None || !c.l.Valid(c.id) {
		return sys.None, syscall.ESRCH
	}
	at := sys.None
	e := plainly(func() syscall.Errno {
		fd, err := c.lookUp(root, cwd, string(path))
		if err != nil {
			return errno(err)
		}
		at = sys.FD(fd)
		return 0
	})
	if e != 0 {
		return sys.None, e
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(at), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		at.Close()
		return sys.None, syscall.ECONNREFUSED
	}
	return at, 0
}

// lookUp looks a path up. No magic link is followed: what it leads to would be ours.
func (c *call) lookUp(root, cwd sys.FD, path string) (int, error) {
	if path[0] != '/' {
		fd, err := sys.Openat2(int(cwd), path, unix.O_PATH, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
		if err != unix.EXDEV {
			return fd, err
		}
		// It leads out of the directory, whose path in the caller's root is needed then.
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(c.task.proc), "cwd", b)
		if err != nil {
			return -1, err
		}
		path = string(b[:n]) + "/" + path
	}
	return sys.Openat2(int(root), path, unix.O_PATH, 0, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
}

// ours reports whether the task has the same access to files as this process has without privileges.
func (t *task) ours() bool {
	var b [4096]byte
	status := t.file("status", b[:])
	last := func(name string) string { // the one for files
		f := bytes.Fields(notify.Field(status, name))
		if len(f) != 4 {
			return ""
		}
		return string(f[3])
	}
	return last("Uid:") == strconv.Itoa(os.Geteuid()) && last("Gid:") == strconv.Itoa(os.Getegid())
}

// plainly calls f without capabilities, because root's command has none outside its sandbox.
func plainly(f func() syscall.Errno) (e syscall.Errno) {
	if os.Geteuid() != 0 {
		return f()
	}
	apart(func() {
		// struct __user_cap_header_struct, and behind it the sets: those of this thread, all empty.
		header, none := [2]uint32{unix.LINUX_CAPABILITY_VERSION_3}, [6]uint32{}
		if _, _, e = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0); e == 0 {
			e = f()
		}
	})
	return e
}

// errno is the number of an error of a system call.
func errno(err error) syscall.Errno {
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EIO
}
