//go:build linux

package broker

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
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

// Published returns the addresses on the host of the ports in Options.Publish, in the same order. Port 0 is replaced by
// the port that was assigned.
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

// servePublished begins to connect clients of published ports to the sandbox.
func (b *Broker) servePublished() {
	for _, p := range b.published {
		b.running.Go(func() { b.accept(p) })
	}
}

// accept serves one published port until its listener is closed.
func (b *Broker) accept(p published) {
	open := conns{all: make(map[net.Conn]bool)}
	var running sync.WaitGroup
	for {
		c, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // no descriptors, or no memory: some may be free later
			time.Sleep(acceptAgain)
			continue
		}
		if !open.add(c) {
			continue
		}
		running.Go(func() {
			defer open.close(c)
			inside, err := b.dialInside(p.Inside)
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

// acceptAgain is the pause after accept(2) failed.
const acceptAgain = 50 * time.Millisecond

// join copies data in both directions until both ends are closed.
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

// add adds a connection, or closes it if all were closed.
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

// dialInside connects to a port of the sandbox, by IPv4, or if that fails, by IPv6.
func (b *Broker) dialInside(port uint16) (c net.Conn, err error) {
	for _, s := range b.seeds {
		if c, err = s.dial(port); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// dial connects to a port of the sandbox with a socket of the seed's family.
func (s *seed) dial(port uint16) (net.Conn, error) {
	fd, err := s.make()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "published")
	defer f.Close()
	if err := dial(int(fd), loopback(s.domain, port)); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
