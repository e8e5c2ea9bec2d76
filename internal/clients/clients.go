// Package clients serves the clients of a listener, a limited number at once. It imports nothing of this module, and
// does not know what they ask for.
package clients

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// again is how long nobody is accepted after that failed.
const again = 50 * time.Millisecond

// Serve calls serve, in a goroutine of its own, for each who connects, until the context ends or the listener is closed,
// which it closes. No more than most are served at once; more wait. The connection is closed behind serve, and when the
// context of serve ends. Nothing goes on when Serve returns.
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
