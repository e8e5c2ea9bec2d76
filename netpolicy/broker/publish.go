package broker

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A published is a port of the sandbox with its listener on the host.
type published struct {
	Port
	l net.Listener
}

// publish listens on the host for the ports of the sandbox.
func (b *Broker) publish() error {
	for _, p := range b.o.Publish {
		l, err := net.Listen("tcp", p.Host.String())
		if err != nil {
			return &Error{"publish", p.Host.String(), err}
		}
		b.published = append(b.published, published{p, l})
	}
	return nil
}

// Published are the addresses on the host that the ports in Options.Publish have, in their
// order: those for port 0 have got one.
func (b *Broker) Published() []net.Addr {
	var all []net.Addr
	for _, p := range b.published {
		all = append(all, p.l.Addr())
	}
	return all
}

func (b *Broker) unpublish() {
	for _, p := range b.published {
		_ = p.l.Close()
	}
}

// servePublished begins to connect who comes to a published port with the sandbox.
func (b *Broker) servePublished() {
	if len(b.published) == 0 {
		return
	}
	s := &seed{socket: int(b.sockets[seedSocket].Fd()), listener: int(b.sockets[seedListener].Fd())}
	_ = unix.SetNonblock(s.socket, true)
	_ = unix.SetNonblock(s.listener, true)
	for _, p := range b.published {
		b.running.Go(func() { b.accept(p, s) })
	}
}

// accept serves one published port until its listener is closed.
func (b *Broker) accept(p published, s *seed) {
	open := conns{all: make(map[net.Conn]bool)}
	var running sync.WaitGroup
	for {
		c, err := p.l.Accept()
		if err != nil {
			break
		}
		if !open.add(c) {
			continue
		}
		running.Go(func() {
			defer open.close(c)
			inside, err := s.dial(p.Inside)
			if err != nil {
				_ = c.(*net.TCPConn).SetLinger(0) // a reset: nobody is there
				return
			}
			if !open.add(inside) {
				return
			}
			defer open.close(inside)
			join(c.(*net.TCPConn), inside.(*net.TCPConn))
		})
	}
	open.closeAll()
	running.Wait()
}

// join copies both ways until both ends have ended.
func join(a, b *net.TCPConn) {
	var both sync.WaitGroup
	for _, way := range [...][2]*net.TCPConn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].CloseWrite()
		})
	}
	both.Wait()
}

// conns are connections that somebody else may close.
type conns struct {
	mu     sync.Mutex
	all    map[net.Conn]bool
	closed bool
}

// add adds a connection, or closes it, when all are.
func (c *conns) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return false
	}
	c.all[conn] = true
	return true
}

func (c *conns) close(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, conn)
	_ = conn.Close()
}

func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.all {
		_ = conn.Close()
	}
}

// A seed makes sockets in the sandbox's network namespace, in which nobody outside can make
// any. It has two that the sandbox made before the command ran: one is connected to the
// other, and what is accepted there is a socket of that namespace too, which after a disconnect is
// like new.
type seed struct {
	mu               sync.Mutex
	socket, listener int
}

// insidePatience is how long a connect inside may take.
const insidePatience = 10 * time.Second

// dial connects to a port of the sandbox, by IPv4 and else by IPv6.
func (s *seed) dial(port uint16) (net.Conn, error) {
	c, err := s.dialTo(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	if err != nil {
		// With another socket: one that has tried IPv4 does not leave it.
		c, err = s.dialTo(netip.IPv6Loopback(), port)
	}
	return c, err
}

func (s *seed) dialTo(a netip.Addr, port uint16) (net.Conn, error) {
	fd, err := s.make()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "published")
	defer f.Close()
	domain, e := option(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case e != 0:
		return nil, e
	case domain == unix.AF_INET && a.Is6():
		return nil, unix.EAFNOSUPPORT
	}
	if err := dial(int(fd), sockaddrOf(domain, a, port)); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// make makes a socket.
func (s *seed) make() (sys.FD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := unix.Getsockname(s.listener)
	if err != nil {
		return sys.None, err
	}
	to := at
	switch a := at.(type) {
	case *unix.SockaddrInet4:
		to = &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte{127, 0, 0, 1}}
	case *unix.SockaddrInet6:
		to = &unix.SockaddrInet6{Port: a.Port, Addr: netip.IPv6Loopback().As16()}
	}
	if err := dial(s.socket, to); err != nil {
		return sys.None, err
	}
	defer func() { _ = disconnect(s.socket) }()
	us, err := unix.Getsockname(s.socket)
	if err != nil {
		return sys.None, err
	}
	for {
		n, peer, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return sys.None, err
		}
		fd := sys.FD(n)
		// The command can find the listener and connect to it too.
		if portOf(peer) == portOf(us) {
			if err := disconnect(n); err != nil {
				fd.Close()
				return sys.None, err
			}
			return fd, nil
		}
		fd.Close()
	}
}

// dial is connect(2) on a socket that does not wait, with waiting.
func dial(fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	if err != unix.EINPROGRESS {
		return err
	}
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n := 0
	err = sys.Retry(func() (err error) {
		n, err = unix.Poll(p[:], int(insidePatience.Milliseconds()))
		return err
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return unix.ETIMEDOUT
	}
	pending, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && pending != 0 {
		err = unix.Errno(pending)
	}
	return err
}

// disconnect makes a TCP socket one that was never connected.
func disconnect(fd int) error {
	var a sockaddr
	a.n = 16 // AF_UNSPEC
	if e := a.connect(fd); e != 0 {
		return e
	}
	return nil
}

// sockaddrOf is an address for sockets of a family.
func sockaddrOf(domain int, a netip.Addr, port uint16) unix.Sockaddr {
	if domain == unix.AF_INET {
		return &unix.SockaddrInet4{Port: int(port), Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: int(port), Addr: a.As16()}
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return -1
}
