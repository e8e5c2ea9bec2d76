// Package clients serves the clients of a listener, a limited number at once. It imports nothing of this module, and
// knows no protocol.
package clients

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// again is how long Serve waits after accept(2) failed.
const again = 50 * time.Millisecond

// Serve calls serve on a goroutine for each client, until the context ends or the listener is closed. It serves at most
// most clients at once; more wait. It closes a connection when serve returns or its context ends, and closes the
// listener. It returns when all calls of serve have returned.
func Serve(ctx context.Context, l net.Listener, most int, serve func(context.Context, net.Conn)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	room := make(chan struct{}, most)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors, or no memory: some may be free later
			<-room
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
			continue
		}
		running.Go(func() {
			defer func() { <-room }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			serve(ctx, conn)
		})
	}
}
