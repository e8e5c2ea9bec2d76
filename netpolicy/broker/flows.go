//go:build linux

package broker

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// idle is after how long a flow without messages ends.
const idle = 2 * time.Minute

// A pair is the sender and the destination of messages.
type pair struct{ client, to netip.AddrPort }

// A flow is a pair's socket on the host, connected to the destination, so that nobody else can answer.
type flow struct {
	pair
	conn *net.UDPConn
	raw  syscall.RawConn // conn's
	used time.Time       // under mu of flows
}

// flows are those of one relay. If there are too many, the least recently used one is closed.
type flows struct {
	most int
	// back relays one message to the client, if there is one. It is called with mu held.
	back func(f *flow, fd int) bool

	mu    sync.Mutex
	all   map[pair]*flow
	ended sync.WaitGroup
}

// get returns a flow, which is about to be used. Nil: there is none.
func (s *flows) get(p pair) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.all[p]
	if f != nil {
		f.used = time.Now()
	}
	return f
}

// open makes a flow. Nil: that is not possible.
func (s *flows) open(p pair) *flow {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(p.to))
	if err != nil {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		_ = conn.Close()
		return nil
	}
	f := &flow{pair: p, conn: conn, raw: raw, used: time.Now()}
	if evicted := s.add(f); evicted != nil {
		_ = evicted.conn.Close()
	}
	return f
}

// add adds a flow, and returns one that has to be closed for it. Nil: none has to be. Closing waits for who reads, and
// that may be answer, which waits for mu: so nothing is closed with mu held.
func (s *flows) add(f *flow) (evicted *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= s.most {
		evicted = s.oldest()
		delete(s.all, evicted.pair)
	}
	if s.all == nil {
		s.all = make(map[pair]*flow)
	}
	s.all[f.pair] = f
	s.ended.Go(func() { s.answer(f) })
	return evicted
}

// oldest is the least recently used flow.
func (s *flows) oldest() (oldest *flow) {
	for _, f := range s.all {
		if oldest == nil || f.used.Before(oldest.used) {
			oldest = f
		}
	}
	return oldest
}

// answer relays the answers that come over a flow, until it is idle.
func (s *flows) answer(f *flow) {
	defer func() {
		_ = f.conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[f.pair] == f {
			delete(s.all, f.pair)
		}
	}()
	for {
		_ = f.conn.SetReadDeadline(time.Now().Add(idle))
		err := f.raw.Read(func(fd uintptr) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.back(f, int(fd))
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.mu.Lock()
			unused := time.Since(f.used) >= idle
			s.mu.Unlock()
			if !unused {
				continue
			}
		}
		if err != nil {
			return
		}
	}
}

// end ends all flows. No flow may be opened meanwhile or later.
func (s *flows) end() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	for _, f := range all {
		_ = f.conn.Close() // without mu, see add
	}
	s.ended.Wait()
}
