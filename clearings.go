//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/nsrun/nsrun/overlay"
)

// clearings handle in the background what is left of sessions that have ended: directories without changes are kept for
// the next command, the others are removed. What cannot be removed is left to overlay.Clean.
type clearings struct {
	slots chan struct{} // of those under way: who writes much must not get ahead of them
	all   sync.Mutex    // held while somebody waits for all slots

	mu      sync.Mutex
	spares  []*overlay.Spare
	leaving []<-chan struct{} // closed when what a command has left is released, see leave
	err     error             // the first one of leave
	closed  bool
}

const (
	maxClearings = 2
	maxSpares    = 4 // of how many commands at once each finds one
)

func (c *clearings) retire(s *overlay.Session) error {
	left, err := s.Retire()
	if err != nil {
		return err
	}
	c.slots <- struct{}{}
	go func() {
		defer func() { <-c.slots }()
		if !left.Ready() || !c.put(left) {
			_ = left.Remove()
		}
	}()
	return nil
}

// put keeps sp, and reports whether there was room for it.
func (c *clearings) put(sp *overlay.Spare) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.spares) == maxSpares {
		return false
	}
	c.spares = append(c.spares, sp)
	return true
}

// leave runs f, which releases what a command has left, in the background; close returns its error.
func (c *clearings) leave(f func() error) {
	done := make(chan struct{})
	c.mu.Lock()
	c.leaving = append(slices.DeleteFunc(c.leaving, isClosed), done)
	c.mu.Unlock()
	go func() {
		defer close(done)
		if err := f(); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.err = cmp.Or(c.err, err)
		}
	}()
}

// awaitLeft waits until all that commands have left so far is released, or ctx ends.
func (c *clearings) awaitLeft(ctx context.Context) {
	c.mu.Lock()
	leaving := slices.Clone(c.leaving)
	c.mu.Unlock()
	for _, done := range leaving {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// spare returns what a new session can use, or nil.
func (c *clearings) spare() (sp *overlay.Spare) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spares); n > 0 {
		sp, c.spares = c.spares[n-1], c.spares[:n-1]
	}
	return sp
}

// close removes all spares, and waits for that, and for what commands have left.
func (c *clearings) close() (err error) {
	c.mu.Lock()
	spares := c.spares
	c.spares, c.closed = nil, true
	c.mu.Unlock()
	for _, sp := range spares {
		if rerr := sp.Remove(); err == nil {
			err = rerr
		}
	}
	c.all.Lock()
	defer c.all.Unlock()
	for range cap(c.slots) {
		c.slots <- struct{}{}
	}
	for range cap(c.slots) {
		<-c.slots
	}
	c.awaitLeft(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(err, c.err)
}
