//go:build linux

package broker

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// bind answers bind(2): a TCP socket of the host is first replaced by one of the sandbox. The kernel
// does the rest, see doc.go.
func (s *server) bind(n *notify.Notification) {
	c, fault, e := s.beginTo(n)
	if c == nil {
		return
	}
	if e == 0 && fault == 0 && c.source() {
		e = c.bindSource()
		c.close()
		c.l.Answer(c.id, e)
		return
	}
	if e == 0 {
		e = c.bring()
	}
	c.close()
	if e != 0 {
		c.l.Answer(c.id, e)
		return
	}
	c.l.Proceed(c.id)
}

// source reports whether a bind says which of the host's addresses a connect is to come from: a
// TCP socket, which is not bound, is bound to one of them and no port. Addresses that have a device
// are left out, and those that nobody needs to have (IP_FREEBIND).
func (c *call) source() bool {
	at := c.to.addrPort()
	if !c.tcpip() || c.own || !c.fits() || at.Port() != 0 || !at.Addr().IsGlobalUnicast() || inside(at.Addr()) {
		return false
	}
	if address, port := bound(c.old); address || port != 0 {
		return false
	}
	free, e := option(c.old, unix.IPPROTO_IP, unix.IP_FREEBIND)
	return e == 0 && free == 0 && c.unconnected()
}

// bindSource is bind(2) on a socket of the host. It takes no port; the socket gets one when it is
// connected. listen(2) fails on such a socket.
func (c *call) bindSource() syscall.Errno {
	fd := c.old
	if c.b.sandboxed(c.old) {
		if e := c.make(false); e != 0 {
			return e
		}
		fd = c.fresh
	}
	late, _ := option(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT)
	setOption(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	e := c.to.bind(int(fd))
	setOption(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, late)
	if e == 0 && c.fresh != sys.None {
		e = c.replace()
	}
	return e
}

// bound returns what a socket is bound to. A disconnected socket still has its port.
func bound(fd sys.FD) (address bool, port int) {
	switch a, _ := unix.Getsockname(int(fd)); a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Addr != [4]byte{}, a.Port
	case *unix.SockaddrInet6:
		return a.Addr != [16]byte{}, a.Port
	}
	return false, 0
}

// sourced reports whether bindSource bound the socket, and it is not connected.
func (c *call) sourced() bool {
	if !c.tcpip() || c.own || c.b.sandboxed(c.old) || !c.unconnected() {
		return false
	}
	address, _ := bound(c.old)
	return address
}
