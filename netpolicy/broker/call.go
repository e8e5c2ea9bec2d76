//go:build linux

package broker

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// A call is a caller's system call on a socket that is being answered.
type call struct {
	b      *Broker
	s      *server // nil for what goes on later
	l      notify.Listener
	id     uint64
	number int // of the caller's descriptor
	to     sockaddr

	task     *task  // borrowed
	old      sys.FD // our copy of the caller's socket
	fresh    sys.FD // what takes its place, if anything does
	domain   int
	protocol int  // of IP sockets
	flags    int  // of the caller's open file, of IP sockets
	own      bool // the socket belongs to a network that the command made
}

// begin returns the call of which the first argument is a descriptor. Nil: the caller is gone. An error is the answer.
func (s *server) begin(n *notify.Notification) (*call, syscall.Errno) {
	c := &call{b: s.b, s: s, l: s.l, id: n.ID, number: int(int32(n.Args[0])), old: sys.None, fresh: sys.None}
	var e syscall.Errno
	c.task, c.old, e = s.copy(n.PID, c.number)
	// The number belonged to the caller only if the caller still waits.
	if !c.l.Valid(c.id) {
		c.close()
		return nil, 0
	}
	if e == 0 {
		e = c.look()
	}
	return c, e
}

// beginTo is begin for a call with an address after the descriptor; fault is the error of reading that.
func (s *server) beginTo(n *notify.Notification) (c *call, fault, e syscall.Errno) {
	var to sockaddr
	fault = to.read(n.PID, n.Args[1], n.Args[2])
	if c, e = s.begin(n); c != nil {
		c.to = to
	}
	return c, fault, e
}

// look finds out the kind of the socket: ENOTSOCK, EBADF.
func (c *call) look() (e syscall.Errno) {
	if c.domain, e = option(c.old, unix.SOL_SOCKET, unix.SO_DOMAIN); e != 0 || !c.ip() {
		return e
	}
	if c.protocol, e = option(c.old, unix.SOL_SOCKET, unix.SO_PROTOCOL); e != 0 {
		return e
	}
	if c.flags, e = fcntl(c.old, unix.F_GETFL, 0); e != 0 || !c.tcpip() {
		return e
	}
	return c.lookNetwork()
}

// ip reports whether it is an IP socket.
func (c *call) ip() bool { return c.domain == unix.AF_INET || c.domain == unix.AF_INET6 }

// tcpip reports whether it is a TCP socket.
func (c *call) tcpip() bool { return c.ip() && c.protocol == unix.IPPROTO_TCP }

func (c *call) close() {
	c.fresh.Close()
	// struct linger: a flag, and how long.
	if v, _, e := bytesOption(c.old, unix.SOL_SOCKET, unix.SO_LINGER); e == 0 && c.tcpip() && [4]byte(v[4:]) != [4]byte{} {
		leave(&c.old)
	}
	c.old.Close()
}

// leave closes a socket that lingers, of which ours may be the last descriptor by now: the kernel would wait for its
// data to be taken, as long as the caller has said. It does not for a thread that ends.
func leave(fd *sys.FD) {
	has, closed := make(chan struct{}), make(chan struct{})
	go apart(func() {
		_ = unix.Unshare(unix.CLONE_FILES)
		close(has)
		<-closed
	})
	<-has
	fd.Close()
	close(closed)
}
