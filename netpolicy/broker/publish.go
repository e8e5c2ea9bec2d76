//go:build linux

package broker

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/clients"
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
	if b.endClients != nil {
		b.drain()
		b.endClients()
	}
	for _, p := range b.published {
		_ = p.l.Close()
	}
}

// maxClients is how many clients of one published port are connected at once; more wait. Any user of the host can be a
// client, and each takes up to six descriptors (io.Copy uses pipes), and a thread while the command does not accept it.
const maxClients = 256

// servePublished begins to connect clients of published ports to the sandbox.
func (b *Broker) servePublished() {
	var ctx context.Context
	ctx, b.endClients = context.WithCancel(context.Background())
	b.sent = make(chan struct{}, 1)
	for _, p := range b.published {
		b.running.Go(func() {
			clients.Serve(ctx, p.l, maxClients, func(ctx context.Context, c net.Conn) { b.connect(ctx, c.(*net.TCPConn), p.Inside) })
		})
	}
}

// connect connects a client to a port of the sandbox until both ends are closed, or the context ends.
func (b *Broker) connect(ctx context.Context, c *net.TCPConn, port uint16) {
	b.sending.Add(1) // before the command can have its connection, and end
	inside, err := b.dialInside(port)
	if err != nil {
		b.hasAll()
		_ = c.SetLinger(0) // a reset: nobody is there
		return
	}
	defer inside.Close()
	defer context.AfterFunc(ctx, func() { _ = inside.Close() })()
	var both sync.WaitGroup
	both.Go(func() {
		defer b.hasAll()
		pass(c, inside.(*net.TCPConn))
	})
	both.Go(func() { pass(inside.(*net.TCPConn), c) })
	both.Wait()
}

// hasAll says that a client has everything that the sandbox sends to it.
func (b *Broker) hasAll() {
	b.sending.Add(-1)
	select {
	case b.sent <- struct{}{}:
	default:
	}
}

// pass copies data until the sender has closed its end.
func pass(to, from *net.TCPConn) {
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
}

// drainMost is how long clients that do not read can delay Close.
const drainMost = 500 * time.Millisecond

// drain waits until the clients have what the sandbox sent before it ended.
func (b *Broker) drain() {
	most := time.After(drainMost)
	for b.sending.Load() > 0 {
		select {
		case <-b.sent:
		case <-most:
			return
		}
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
