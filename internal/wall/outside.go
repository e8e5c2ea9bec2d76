//go:build linux

package wall

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// Network rules without a network namespace. The Deputy makes a command's sockets, and only the Deputy can connect
// them: the command's Landlock domain allows it no port, and the filter refuses the calls and options that would
// connect a socket otherwise. So the Deputy copies the address of connect(2) once, decides about the copy, and connects
// its own copy of the socket to that.
//
// A UDP socket can send to another address with each call, so commands have none. What looks like one is an end of a
// socket pair, for DNS alone. A TCP socket that is connected to port 53 becomes such an end, too. Whatever name server
// a program asks, nsrun answers.

// Outside says what a command may reach outside.
type Outside struct {
	// Decide reports whether the command may connect to a TCP port of an address, which is not IPv4-mapped. It must
	// not wait.
	Decide func(to netip.AddrPort) bool
	// Report is called with each decision about a connect(2), in the order of the calls.
	Report func(to netip.AddrPort, allowed bool)
	// Answer answers a DNS query. Nil: the query has no answer. The context ends with the command.
	Answer func(ctx context.Context, query []byte) []byte
	// Serve answers the DNS queries that arrive over a stream (RFC 1035, section 4.2.2), on another goroutine, and
	// closes the stream.
	Serve func(c net.Conn)
}

const portDNS = 53

// reach connects a TCP socket to an address outside, if that is allowed.
func (d *Deputy) reach(l notify.Listener, n *notify.Notification, ino uint64, fd sys.FD, at netip.AddrPort) {
	to := netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	allowed := d.Outside.Decide(to)
	if !allowed && at.Port() == portDNS {
		l.Answer(n.ID, d.queryStream(l, n, ino, fd))
		return
	}
	d.Outside.Report(to, allowed)
	if !allowed {
		l.Answer(n.ID, syscall.ECONNREFUSED)
		return
	}
	d.sockets.begin(l, n, ino, func(p *dial) syscall.Errno { return d.sockets.dialOutside(l, p, sockaddr(at.Addr(), at.Port())) })
}

// dialOutside connects a socket. If the socket is non-blocking, or the caller got a signal, it answers the call
// earlier; then the caller asks the socket for the result.
func (s *sockets) dialOutside(l notify.Listener, p *dial, to unix.Sockaddr) syscall.Errno {
	nonblock, e := attempt(p.fd, to)
	switch e {
	case syscall.EINPROGRESS, syscall.EALREADY, syscall.EINTR:
	case syscall.EINVAL: // it is bound, and the command's sockets are bound to loopback addresses only
		return syscall.EADDRNOTAVAIL
	default:
		return e
	}
	if nonblock {
		s.answer(l, p, e)
	}
	for e = s.wait(l, p); e == notify.Restart || e == syscall.EINPROGRESS || e == syscall.EINTR; e = s.wait(l, p) {
		s.answer(l, p, e)
	}
	switch {
	case e != 0 || !failed(p.fd):
		return e
	case !s.waits(p):
		return syscall.ECONNREFUSED // the error is left in the socket, for the command
	}
	pending, err := unix.GetsockoptInt(int(p.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	return s.disconnect(p.fd, cmp.Or(errnoOf(err), syscall.Errno(pending), syscall.ECONNABORTED))
}

// queryStream replaces a TCP socket that the command wants to connect to a name server.
func (d *Deputy) queryStream(l notify.Listener, n *notify.Notification, ino uint64, fd sys.FD) syscall.Errno {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return errnoOf(err)
	}
	ours, theirs, e := queryPair(unix.SOCK_STREAM, flags&unix.O_NONBLOCK != 0)
	if e != 0 {
		return e
	}
	defer theirs.Close()
	c, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return syscall.ENOBUFS
	}
	number := int(int32(n.Args[0]))
	if e := l.Place(n.ID, int(theirs), number, flagsOf(n.PID, number)&unix.O_CLOEXEC != 0); e != 0 {
		_ = c.Close()
		return e
	}
	d.sockets.drop(ino)
	d.Outside.Serve(c)
	return 0
}

// querySocket gives the caller a socket for DNS queries in place of a UDP socket. Packets of SOCK_SEQPACKET sockets
// have no address: what a program gives to sendto(2) does not matter.
func (d *Deputy) querySocket(l notify.Listener, n *notify.Notification, kind int) {
	ours, theirs, e := queryPair(unix.SOCK_SEQPACKET, kind&unix.SOCK_NONBLOCK != 0)
	if e != 0 {
		l.Answer(n.ID, e)
		return
	}
	defer theirs.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(theirs), &st); err != nil {
		_ = ours.Close()
		l.Answer(n.ID, errnoOf(err))
		return
	}
	if !d.answerQueries(st.Ino, ours) {
		_ = ours.Close()
		l.Answer(n.ID, syscall.EMFILE)
		return
	}
	if e := l.Give(n.ID, int(theirs), kind&unix.SOCK_CLOEXEC != 0); e != 0 {
		l.Answer(n.ID, e)
	}
}

// maxQuery is the length of the longest query, in bytes. A name has at most 255.
const maxQuery = 4096

// answerQueries answers the queries on a socket until the command has closed its end. False: the command has too many
// such sockets, or has ended.
func (d *Deputy) answerQueries(ino uint64, ours *os.File) bool {
	s := &d.sockets
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queries) >= maxIdle {
		return false
	}
	if s.queries == nil {
		s.queries = make(map[uint64]*os.File)
	}
	s.queries[ino] = ours
	s.running.Go(func() {
		buf := make([]byte, maxQuery)
		for {
			size, err := ours.Read(buf)
			if err != nil {
				break
			}
			if answer := d.Outside.Answer(d.lifetime, buf[:size]); answer != nil {
				if _, err := ours.Write(answer); err != nil {
					break
				}
			}
		}
		s.mu.Lock()
		delete(s.queries, ino)
		s.mu.Unlock()
		_ = ours.Close()
	})
	return true
}

// forQueries reports whether a socket is one for DNS queries.
func (s *sockets) forQueries(ino uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.queries[ino]
	return ok
}

// queryCall returns the result of bind(2), listen(2) or connect(2) for a socket for DNS queries.
func queryCall(n *notify.Notification) syscall.Errno {
	switch uint32(n.NR) {
	case unix.SYS_BIND:
		return 0
	case unix.SYS_LISTEN:
		return syscall.EOPNOTSUPP
	}
	at, e := address(n)
	if e == 0 && at.Port() != portDNS {
		e = syscall.ENETUNREACH
	}
	return e
}

// queryPair makes a socket pair: an end that the Go runtime polls, and one for the command.
func queryPair(kind int, nonblock bool) (ours *os.File, theirs sys.FD, e syscall.Errno) {
	made, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, sys.None, errnoOf(err)
	}
	ours, theirs = os.NewFile(uintptr(made[0]), "DNS queries"), sys.FD(made[1])
	if !nonblock {
		if err := unix.SetNonblock(made[1], false); err != nil {
			_ = ours.Close()
			theirs.Close()
			return nil, sys.None, errnoOf(err)
		}
	}
	return ours, theirs, 0
}

// flagsOf returns the flags of a caller's descriptor, see open(2). Zero: it cannot be asked.
func flagsOf(pid uint32, number int) uint64 {
	// They are in the second line. What follows has a line for each file that an epoll instance waits for.
	info, err := sys.Head(notify.Proc(pid, "fdinfo/"+strconv.Itoa(number)), make([]byte, 512))
	if err != nil {
		return 0
	}
	return notify.Number(info, "flags:", 8)
}
