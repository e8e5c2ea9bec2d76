//go:build linux

package nsrun

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/nsrun/nsrun/internal/wall"
	"github.com/nsrun/nsrun/netpolicy"
)

// byDeputy has package wall enforce the rules, for a command without namespaces.
func (n *network) byDeputy(resolver *netpolicy.Resolver) {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = append(n.stop, cancel)
	streams := &streamQueue{streams: make(chan net.Conn), closed: make(chan struct{})}
	go func() { _ = resolver.Serve(ctx, nil, streams) }() // it ends with the context
	n.outside = &wall.Outside{
		Decide: func(to netip.AddrPort) bool { return n.table.Decide(netpolicy.TCP, to).Allowed },
		Report: func(to netip.AddrPort, allowed bool) {
			v := n.table.Decide(netpolicy.TCP, to)
			v.Allowed = allowed
			n.log.Add(netpolicy.TCP, to, v)
		},
		Answer: func(ctx context.Context, query []byte) []byte { return resolver.Answer(ctx, query, false) },
		Serve:  func(c net.Conn) { go streams.add(c) },
	}
}

// A streamQueue is a net.Listener that accepts the connections that are added to it.
type streamQueue struct {
	streams chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// add waits until the connection is accepted, or the queue is closed.
func (q *streamQueue) add(c net.Conn) {
	select {
	case q.streams <- c:
	case <-q.closed:
		_ = c.Close()
	}
}

// Accept is that of net.Listener.
func (q *streamQueue) Accept() (net.Conn, error) {
	select {
	case c := <-q.streams:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close is that of net.Listener.
func (q *streamQueue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr is that of net.Listener.
func (q *streamQueue) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// resolveOverTCP returns the variable with which the C library asks name servers over TCP (resolv.conf(5)). Over UDP it
// takes only answers that come from the server's address, and answers on a socket pair have none. clean says that the
// command has no other variables of the caller.
func resolveOverTCP(clean bool) []string {
	const variable, option = "RES_OPTIONS", "use-vc"
	before := os.Getenv(variable)
	if clean {
		before = ""
	}
	return []string{variable + "=" + strings.TrimSpace(before+" "+option)}
}
