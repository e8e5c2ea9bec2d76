//go:build linux

package broker

import (
	"encoding/binary"
	"syscall"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/netpolicy"
)

const (
	sizeofMsghdr  = 56
	sizeofMmsghdr = 64
	maxMessages   = 1024 // UIO_MAXIOV
)

// Messages with an address of their own are only checked here, so that denied ones fail at once, with an error. It does
// not matter if the caller changes the address afterwards: the sandbox never has a host socket that could send
// anywhere, the relay checks what leaves again, and a message that would be a connect (MSG_FASTOPEN) is visible in a
// register.

// Programs give connected TCP sockets an address too, which the kernel ignores.

// sendTo answers sendto(2).
func (s *server) sendTo(n *notify.Notification) {
	var a sockaddr
	s.verdict(n, a.read(n.PID, n.Args[4], n.Args[5]), &a)
}

// verdict answers a call after its address was read.
func (s *server) verdict(n *notify.Notification, e syscall.Errno, a *sockaddr) {
	switch {
	case e != 0:
		s.l.Answer(n.ID, e)
	case !s.l.Valid(n.ID):
	default:
		if e := s.maySend(n, a); e != 0 {
			s.l.Answer(n.ID, e)
		} else {
			s.l.Proceed(n.ID)
		}
	}
}

// maySend decides about the address of a message.
func (s *server) maySend(n *notify.Notification, a *sockaddr) syscall.Errno {
	to := a.addrPort()
	if !to.IsValid() || inside(to.Addr()) {
		return 0 // what is not an IP address stays in the sandbox too
	}
	ok := s.b.may(netpolicy.UDP, to)
	if !ok && s.ofTCP(n) {
		return 0
	}
	s.b.report(netpolicy.UDP, to, ok)
	if !ok {
		return syscall.EPERM
	}
	return s.b.open()
}

// ofTCP reports whether a call is on a TCP socket. If the number is another socket by the time of the call, the relay
// decides.
func (s *server) ofTCP(n *notify.Notification) bool {
	c, e := s.begin(n)
	if c == nil {
		return false
	}
	defer c.close()
	return e == 0 && c.tcpip()
}

// sendMessages answers sendmsg(2) and sendmmsg(2). If there are several messages, all must be allowed.
func (s *server) sendMessages(n *notify.Notification, count, size int) {
	headers := make([]byte, count*size)
	if e := notify.ReadMemory(n.PID, uintptr(n.Args[1]), headers); e != 0 {
		s.l.Answer(n.ID, e)
		return
	}
	for ; len(headers) > 0; headers = headers[size:] {
		name, namelen := binary.NativeEndian.Uint64(headers), binary.NativeEndian.Uint32(headers[8:])
		if name == 0 || namelen == 0 {
			continue
		}
		var a sockaddr
		if e := a.read(n.PID, name, uint64(min(namelen, maxSockaddr))); e != 0 {
			s.l.Answer(n.ID, e)
			return
		}
		if e := s.maySend(n, &a); e != 0 {
			s.l.Answer(n.ID, e)
			return
		}
	}
	if s.l.Valid(n.ID) {
		s.l.Proceed(n.ID)
	}
}
