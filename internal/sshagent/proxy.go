package sshagent

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/clients"
)

// A Proxy serves the clients of one sandbox. Its functions are called from several goroutines.
type Proxy struct {
	// Dial connects to the agent.
	Dial func(ctx context.Context) (net.Conn, error)
	// Listed reports whether clients may know of a key.
	Listed func(ctx context.Context, k Key) bool
	// Sign reports whether a signature may be made. It is called for each one.
	Sign func(ctx context.Context, u *Use) bool

	rate rate
}

// Limits of one sandbox.
const (
	maxClients = 16 // at once; more wait
	burst      = 100
	perSecond  = 50 // requests
)

// Serve serves clients until the context ends or the listener is closed. It closes the listener, and returns when all
// clients have ended.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) {
	clients.Serve(ctx, l, maxClients, func(ctx context.Context, conn net.Conn) {
		c := client{proxy: p, conn: conn}
		c.serve(ctx)
	})
}

// Keys returns the agent's keys.
func Keys(ctx context.Context, conn net.Conn) ([]Key, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	kind, body, err := call(conn, requestKeys, nil)
	switch {
	case err != nil:
		return nil, err
	case kind != keysAnswer:
		return nil, errors.New("the agent does not list its keys")
	}
	return parseKeys(body)
}

// call sends a request to an agent, and returns the answer.
func call(agent net.Conn, kind byte, body []byte) (answer byte, _ []byte, err error) {
	if err := writeMessage(agent, kind, body); err != nil {
		return 0, nil, err
	}
	b, err := readMessage(agent)
	if err != nil {
		return 0, nil, err
	}
	return b[0], b[1:], nil
}

// A client is one connection.
type client struct {
	proxy *Proxy
	conn  net.Conn
	agent net.Conn // the client's own; nil: not needed yet
	bound []binding
}

func (c *client) serve(ctx context.Context) {
	defer func() {
		if c.agent != nil {
			_ = c.agent.Close()
		}
	}()
	for {
		m, err := readMessage(c.conn)
		if err != nil || c.proxy.rate.wait(ctx) != nil {
			return
		}
		kind, body := c.answer(ctx, m[0], m[1:])
		if writeMessage(c.conn, kind, body) != nil {
			return
		}
	}
}

// answer returns the answer to a request. Unknown requests fail, as with an agent that does not have them.
func (c *client) answer(ctx context.Context, kind byte, body []byte) (byte, []byte) {
	switch kind {
	case requestKeys:
		if list, ok := c.list(ctx); ok && len(body) == 0 {
			return keysAnswer, appendKeys(list)
		}
	case requestSign:
		if signature, ok := c.sign(ctx, body); ok {
			return signAnswer, signature
		}
	case extension:
		r := reader{b: body}
		if name := r.text(); string(name) == sessionBindName && !r.bad && c.bind(ctx, body, r.b) {
			return success, nil
		}
	}
	return failure, nil
}

// ask sends a request to the client's agent, and returns the answer.
func (c *client) ask(ctx context.Context, kind byte, body []byte) (byte, []byte, error) {
	if c.agent == nil {
		agent, err := c.proxy.Dial(ctx)
		if err != nil {
			return 0, nil, err
		}
		c.agent = agent
	}
	agent := c.agent
	defer context.AfterFunc(ctx, func() { _ = agent.Close() })()
	answer, b, err := call(agent, kind, body)
	if err != nil { // the agent's next answer may be to this request
		_ = agent.Close()
		c.agent, c.bound = nil, nil
	}
	return answer, b, err
}

// list returns the keys that clients may know of.
func (c *client) list(ctx context.Context) ([]Key, bool) {
	kind, body, err := c.ask(ctx, requestKeys, nil)
	if err != nil || kind != keysAnswer {
		return nil, false
	}
	all, err := parseKeys(body)
	if err != nil {
		return nil, false
	}
	return slices.DeleteFunc(all, func(k Key) bool { return !c.proxy.Listed(ctx, k) }), true
}

// sign has the agent sign, if clients may know of the key and Sign allows it.
func (c *client) sign(ctx context.Context, body []byte) ([]byte, bool) {
	r := reader{b: body}
	blob, data, flags := r.text(), r.text(), r.number()
	if !r.done() {
		return nil, false
	}
	list, ok := c.list(ctx)
	i := slices.IndexFunc(list, func(k Key) bool { return bytes.Equal(k.Blob, blob) })
	if !ok || i < 0 {
		return nil, false
	}
	u := inspect(list[i], data, c.bound)
	if !c.proxy.Sign(ctx, &u) {
		return nil, false
	}
	kind, signature, err := c.ask(ctx, requestSign, signRequest(blob, data, flags))
	return signature, err == nil && kind == signAnswer
}

// bind passes a session-bind on to the agent, and remembers it if the agent accepts it.
func (c *client) bind(ctx context.Context, body, rest []byte) bool {
	b, ok := parseBinding(rest)
	if !ok || len(c.bound) >= maxBindings {
		return false
	}
	if kind, _, err := c.ask(ctx, extension, body); err != nil || kind != success {
		return false
	}
	c.bound = append(c.bound, b)
	return true
}

// A rate limits requests, by burst and perSecond.
type rate struct {
	mu   sync.Mutex
	next time.Time // when the next request would be due, if they came evenly
}

func (r *rate) wait(ctx context.Context) error {
	r.mu.Lock()
	now := time.Now()
	if early := now.Add(-burst * time.Second / perSecond); r.next.Before(early) {
		r.next = early
	}
	r.next = r.next.Add(time.Second / perSecond)
	delay := r.next.Sub(now)
	r.mu.Unlock()
	if delay <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
