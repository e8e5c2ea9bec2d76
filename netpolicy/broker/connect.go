//go:build linux

package broker

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/netpolicy"
)

// connect answers connect(2).
func (s *server) connect(n *notify.Notification) {
	c, fault, e := s.beginTo(n)
	if c == nil {
		return
	}
	if fault != 0 && e != syscall.EBADF {
		e = fault
	}
	if e == 0 {
		var later bool
		if e, later = c.connect(); later {
			return
		}
	}
	c.close() // first: or what the caller closes would stay open until we do
	if e != answered {
		c.l.Answer(c.id, e)
	}
}

// answered is not an error: the caller has its answer.
const answered = ^syscall.Errno(0)

// connect decides about a connect, and does what does not take long. If later is set, a goroutine owns the call.
func (c *call) connect() (e syscall.Errno, later bool) {
	if !c.ip() {
		if !c.b.landlock {
			return c.local()
		}
		if c.domain != unix.AF_UNIX && c.domain != unix.AF_NETLINK {
			return syscall.EPERM, false
		}
		c.l.Proceed(c.id) // see doc.go
		return answered, false
	}
	if c.to.family() == unix.AF_UNSPEC {
		return c.to.connect(int(c.old)), false // a disconnect
	}
	to := c.to.addrPort()
	if c.short() {
		return syscall.EINVAL, false
	}
	if !c.fits() {
		return syscall.EAFNOSUPPORT, false
	}
	if !to.IsValid() {
		return syscall.EINVAL, false
	}
	if !c.tcpip() {
		return c.udp(to), false
	}
	return c.tcp(to)
}

// short reports whether the address is too short for one of the socket's family, which the kernel finds before it looks
// at the family.
func (c *call) short() bool {
	if c.domain == unix.AF_INET6 && (c.tcpip() || c.to.family() != unix.AF_INET) {
		return c.to.n < sizeofSockaddrIn6RFC2133
	}
	return c.to.n < unix.SizeofSockaddrInet4
}

// fits reports whether the address is of a family that the socket takes.
func (c *call) fits() bool {
	switch c.to.family() {
	case unix.AF_INET:
		return c.domain == unix.AF_INET || !c.tcpip()
	case unix.AF_INET6:
		return c.domain == unix.AF_INET6
	}
	return false
}

// tcp connects a TCP socket. If it does not belong to the network of the address, another one replaces it.
func (c *call) tcp(to netip.AddrPort) (e syscall.Errno, later bool) {
	if c.own {
		return c.itself()
	}
	inward := inside(to.Addr()) && !c.b.hostLoopback(to)
	if !inward && !c.b.allowed(netpolicy.TCP, to) {
		return syscall.ECONNREFUSED, false
	}
	c.s.inward = inward
	network := c.s.host
	if inward {
		network = c.b.cookie
	}
	if cookie(c.old) == network {
		return c.itself()
	}
	if e := c.used(); e != 0 {
		return e, false
	}
	if e := c.make(inward); e != 0 {
		return e, false
	}
	e = c.to.connect(int(c.fresh))
	waits := c.flags&unix.O_NONBLOCK == 0
	if waits && e == syscall.EINPROGRESS {
		// A near peer has answered by now.
		e = c.to.connect(int(c.fresh))
	}
	switch {
	case e == 0:
		return c.replace(), false
	case waits && e == syscall.EALREADY:
		return c.later(c.fresh)
	case waits || e != syscall.EINPROGRESS:
		return e, false
	}
	if e := c.replace(); e != 0 {
		return e, false
	}
	return syscall.EINPROGRESS, false
}

// udp connects a UDP socket, which sends nothing: the relay checks and reports what is sent later. C libraries connect
// to the TCP port that they were asked for, or to port 0, to find out which addresses are reachable. That is neither
// reported, nor does it need the link.
func (c *call) udp(to netip.AddrPort) syscall.Errno {
	if !inside(to.Addr()) {
		switch {
		case to.Port() == 0:
		case c.b.may(netpolicy.UDP, to):
			if e := c.b.open(); e != 0 {
				return e
			}
		case !c.b.may(netpolicy.TCP, to):
			c.b.report(netpolicy.UDP, to, false)
			return syscall.ECONNREFUSED
		}
	}
	return c.to.connect(int(c.old))
}

// itself connects the caller's own socket.
func (c *call) itself() (e syscall.Errno, later bool) {
	if c.flags&unix.O_NONBLOCK != 0 {
		return c.attempt(c.old), false
	}
	// Only other threads of the caller can see that the socket has O_NONBLOCK for a moment.
	if _, e := fcntl(c.old, unix.F_SETFL, c.flags|unix.O_NONBLOCK); e != 0 {
		return e, false
	}
	e = c.attempt(c.old)
	if e == syscall.EINPROGRESS || e == syscall.EALREADY {
		// A near peer has answered by now.
		e = c.attempt(c.old)
	}
	if e == syscall.EINPROGRESS || e == syscall.EALREADY {
		return c.later(c.old)
	}
	c.restore()
	return e, false
}

// restore gives the caller's own socket its flags back.
func (c *call) restore() { _, _ = fcntl(c.old, unix.F_SETFL, c.flags) }

// used is the error of a socket for a further connect(2). 0: it is not connected, or no longer.
func (c *call) used() syscall.Errno {
	const synSent, synRecv = 2, 3
	switch state, e := state(c.old); {
	case e != 0:
		return e
	case state == closed:
		// The error of an earlier connect with O_NONBLOCK; a disconnect leaves one, too.
		if pending, _ := option(c.old, unix.SOL_SOCKET, unix.SO_ERROR); pending != int(syscall.ECONNRESET) {
			return syscall.Errno(pending)
		}
		return 0
	case state == synSent || state == synRecv:
		return syscall.EALREADY
	}
	return syscall.EISCONN
}

// closed is TCP_CLOSE, net/tcp_states.h.
const closed = 7

// unconnected reports whether the caller's TCP socket is neither connected nor listens.
func (c *call) unconnected() bool {
	now, e := state(c.old)
	return e == 0 && now == closed
}

// state is the state of a TCP socket.
func state(fd sys.FD) (byte, syscall.Errno) {
	// The first field of struct tcp_info.
	info, e := option(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return byte(info), e
}

// cookie identifies the network namespace of a socket. 0: it is no socket.
func cookie(fd sys.FD) (v uint64) {
	n := uint32(8)
	_, _, _ = syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE,
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	return v
}

// sandboxed reports whether a socket belongs to the sandbox's network namespace.
func (b *Broker) sandboxed(fd sys.FD) bool { return cookie(fd) == b.cookie }

// inside reports whether an address is the sandbox's own.
func inside(a netip.Addr) bool {
	return a.IsLoopback() || a.IsUnspecified() || a == address4 || a == address6
}

// The addresses of the sandbox, beside the loopback ones: the dummy address of RFC 7600, and a random unique local one.
var (
	address4 = netip.AddrFrom4([4]byte{192, 0, 0, 8})
	address6 = netip.AddrFrom16([16]byte{0xfd, 0x6e, 0x73, 0x72, 0x75, 0x6e, 15: 1})
)

func (b *Broker) hostLoopback(to netip.AddrPort) bool {
	return to.Addr().IsLoopback() && b.o.HostLoopback != nil && b.o.HostLoopback(to)
}
