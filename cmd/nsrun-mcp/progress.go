//go:build linux

package main

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nsrun/nsrun"
)

// progress sends the client a command's output while it runs. It never delays the command: what a slow client misses
// comes with the result.
type progress struct {
	ctx     context.Context // of the call
	session *mcp.ServerSession
	token   any

	mu      sync.Mutex
	pending []byte // the end of what was not told yet
	total   int64  // bytes written

	wake    chan struct{}
	stopped chan struct{}
	done    chan struct{}
}

const (
	maxPending  = 2 << 10                // bytes: some lines
	progressGap = 200 * time.Millisecond // between two notifications
)

func newProgress(ctx context.Context, session *mcp.ServerSession, token any) *progress {
	p := &progress{
		ctx: ctx, session: session, token: token,
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), done: make(chan struct{}),
	}
	go p.tell()
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.total += int64(len(b))
	p.pending = append(p.pending, b[max(0, len(b)-maxPending):]...)
	if over := len(p.pending) - maxPending; over > 0 {
		for over < len(p.pending) && !utf8.RuneStart(p.pending[over]) {
			over++
		}
		p.pending = append([]byte(nil), p.pending[over:]...)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *progress) tell() {
	defer close(p.done)
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-p.wake:
		case <-p.stopped:
			return
		}
		p.mu.Lock()
		text := p.pending
		p.pending = nil
		total := p.total
		p.mu.Unlock()
		err := p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{
			ProgressToken: p.token, Progress: float64(total), Message: nsrun.Output{Head: text}.String(),
		})
		if err != nil {
			return
		}
		gap.Reset(progressGap)
		select {
		case <-gap.C:
		case <-p.stopped:
			return
		}
	}
}

// stop ensures that no notification follows the result.
func (p *progress) stop() {
	close(p.stopped)
	select {
	case <-p.done:
	case <-p.ctx.Done():
	}
}
