//go:build linux

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// The SDK cancels all calls when standard input ends. But a client that writes requests to a pipe and closes it wants
// the answers:
//
//	nsrun mcp <requests >answers
//
// So the SDK sees the end only when each request has its answer. A client that is gone has closed our standard output,
// too, or it sends a signal; both end the commands at once.

// grace is how long commands go on after the end of standard input, in addition to --timeout, if standard output stays
// open: it may be a file, or held by another process. A variable for the tests.
var grace = time.Minute

var errGrace = errors.New("standard input ended long ago; the commands that still run are ended, without an answer (try: --timeout)")

type transport struct {
	*mcp.IOTransport
	lines *lines
	owed  *sync.WaitGroup // counts unwritten answers and errors of lines
	ended func()          // called at the end of standard input
}

func (t transport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Connection: c, t: t, asked: map[jsonrpc.ID]bool{}, closed: make(chan struct{})}, nil
}

// conn delays the end of the input until no answer is owed.
type conn struct {
	mcp.Connection
	t transport

	mu    sync.Mutex
	asked map[jsonrpc.ID]bool // requests whose answer is not being written yet

	once   sync.Once
	closed chan struct{}
}

func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.end()
			return nil, err
		}
		r, ok := m.(*jsonrpc.Request)
		if !ok || !r.IsCall() || c.ask(r.ID) {
			return m, nil
		}
		// The SDK would not answer.
		c.t.lines.answer(nil, jsonrpc.CodeInvalidRequest, "another request with the same id is not answered yet")
	}
}

// end waits until no answer is owed.
func (c *conn) end() {
	c.t.ended()
	written := make(chan struct{})
	go func() {
		c.t.owed.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-c.closed:
	}
}

// ask records that an answer is owed, and reports whether the ID is new.
func (c *conn) ask(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[id] {
		return false
	}
	c.asked[id] = true
	c.t.owed.Add(1)
	return true
}

func (c *conn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		// A client that has read the answer may use the ID again.
		c.mu.Lock()
		if c.asked[r.ID] {
			delete(c.asked, r.ID)
			defer c.t.owed.Done()
		}
		c.mu.Unlock()
	}
	return c.Connection.Write(ctx, m)
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

// hangup waits until nobody can read fd any more. For a file it never returns.
func hangup(fd int) {
	p := []unix.PollFd{{Fd: int32(fd)}}
	for {
		if n, err := unix.Poll(p, -1); n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}
