//go:build linux

package broker

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// socket answers socket(2) for TCP with a socket of the host's network, because most connect there. If it is used
// inside the sandbox, connect, bind and listen replace it by one of the sandbox. If the last socket was used inside,
// this one probably will be, too, and the kernel makes it there.
func (s *server) socket(n *notify.Notification) {
	if int32(n.Args[0]) == unix.AF_NETLINK || n.Args[1]&seccomp.SockTypeMask != unix.SOCK_STREAM {
		s.observed(n)
		return
	}
	if s.inward || s.b.elsewhere(n.PID) {
		s.l.Proceed(n.ID)
		return
	}
	kind := int(int32(n.Args[1]))
	fd, err := unix.Socket(int(int32(n.Args[0])), kind|unix.SOCK_CLOEXEC, int(int32(n.Args[2])))
	if err != nil {
		s.l.Answer(n.ID, err.(syscall.Errno))
		return
	}
	f := sys.FD(fd)
	defer f.Close()
	if e := s.l.Give(n.ID, fd, kind&unix.SOCK_CLOEXEC != 0); e != 0 {
		s.l.Answer(n.ID, e) // EMFILE
	}
}

// observed answers for a socket that the broker does not make: one of netlink or for ICMP, which the kernel makes in
// the sandbox, or a raw one, which nobody gets.
func (s *server) observed(n *notify.Notification) {
	s.b.observer.Look(n)
	if netlink := int32(n.Args[0]) == unix.AF_NETLINK; netlink || n.Args[1]&seccomp.SockTypeMask == unix.SOCK_DGRAM {
		s.l.Proceed(n.ID)
	} else {
		s.l.Answer(n.ID, syscall.EPERM)
	}
}

// listen answers listen(2): on its own copy, and never on a socket of the host's network.
func (s *server) listen(n *notify.Notification) {
	c, e := s.begin(n)
	if c == nil {
		return
	}
	if e == 0 && c.sourced() {
		e = syscall.EADDRNOTAVAIL
	}
	if e == 0 {
		e = c.bring()
	}
	if e == 0 {
		e = c.listen(n.Args[1])
	}
	c.close()
	c.l.Answer(c.id, e)
}

func (c *call) listen(backlog uint64) syscall.Errno {
	fd := c.old
	switch {
	case c.fresh != sys.None:
		fd = c.fresh
	case c.domain != unix.AF_UNIX && !c.own && !c.b.sandboxed(fd):
		return syscall.EPERM
	}
	_, _, e := syscall.Syscall(unix.SYS_LISTEN, uintptr(fd), uintptr(backlog), 0)
	return e
}

// maxJoin is the size of struct group_source_req.
const maxJoin = 264

// join answers setsockopt(2) for the options in joins: on its own copies of the socket and of the value, and never
// on a socket of the host's network.
func (s *server) join(n *notify.Notification) {
	var value [maxJoin]byte
	size := min(int(int32(n.Args[4])), maxJoin)
	fault := syscall.EINVAL
	if size >= 0 {
		fault = notify.ReadMemory(n.PID, uintptr(n.Args[3]), value[:size])
	}
	c, e := s.begin(n)
	if c == nil {
		return
	}
	switch {
	case e != 0:
	case !c.ip():
		e = syscall.ENOPROTOOPT
	case fault != 0:
		e = fault
	case !c.b.sandboxed(c.old):
		e = syscall.EPERM
	default:
		_, _, e = syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(c.old), uintptr(int32(n.Args[1])), uintptr(int32(n.Args[2])),
			uintptr(unsafe.Pointer(&value)), uintptr(size), 0)
	}
	c.close()
	c.l.Answer(c.id, e)
}

// bring replaces a TCP socket of another network by one of the sandbox, unless it is connected. bind(2)
// and listen(2) fail on a connected one.
func (c *call) bring() syscall.Errno {
	if !c.tcpip() || c.own || c.b.sandboxed(c.old) {
		return 0
	}
	if !c.unconnected() {
		return syscall.EINVAL
	}
	c.s.inward = true
	if e := c.make(true); e != 0 {
		return e
	}
	return c.replace()
}

// make makes the socket that replaces the caller's old one.
func (c *call) make(inward bool) (e syscall.Errno) {
	if c.fresh, e = c.plain(inward); e != 0 {
		return e
	}
	return c.copyOptions()
}

// plain makes a socket of the caller's kind with the default options and O_NONBLOCK.
func (c *call) plain(inward bool) (sys.FD, syscall.Errno) {
	if !inward {
		fd, err := unix.Socket(c.domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
		if err != nil {
			return sys.None, err.(syscall.Errno)
		}
		return sys.FD(fd), 0
	}
	for _, s := range c.b.seeds {
		if s.domain != c.domain {
			continue
		}
		fd, err := s.make()
		if err != nil {
			return sys.None, syscall.ENOBUFS
		}
		return fd, 0
	}
	return sys.None, syscall.EAFNOSUPPORT
}
