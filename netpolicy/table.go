package netpolicy

import (
	"iter"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Grace is how long an address stays usable after its time to live is over: programs connect some time after
	// their query, and may then try the next address.
	Grace = 2 * time.Minute

	// Always is an infinite time to live, for names that programs look up by themselves, such as those in
	// /etc/hosts.
	Always time.Duration = math.MaxInt64

	// maxTTL is the longest time to live that is believed of a server.
	maxTTL = 24 * time.Hour

	// MaxLearned is how many addresses a Table can learn. If it is full, Learn returns ErrFull until others expire.
	MaxLearned = 1 << 17
)

// A Table is a Policy compiled for fast decisions, with the addresses of names. Decide takes no lock. All methods may
// be called at any time by any goroutine.
type Table struct {
	state atomic.Pointer[state]
	clock func() time.Duration // since the table was made

	mu    sync.Mutex // for all that changes something
	known map[netip.Addr]*known
	due   map[int64][]netip.Addr // which addresses to look at in which second, and stale ones
	stale int                    // at most so many of those were added
	swept int64                  // the seconds below are done
	sink  Sink
	sent  int // how many sets the sink has
	gen   uint32
}

// state is one generation.
type state struct {
	*compiled
	policy  Policy
	learned *learned
}

// known is what is known about one address.
type known struct {
	names []givenFor // the latest last
	due   int64      // the second in which it stands in Table.due; 0: in none
	sent  uint32     // the set that the sink has for it
}

// A givenFor is a name that an address was given out for.
type givenFor struct {
	name  string
	until time.Duration
}

// A Verdict is the answer of Decide.
type Verdict struct {
	Allowed bool
	Host    string // the name that the address was last given out for; "" if none is known
	Special string // what the address is if it is special: "private", "loopback", …
}

// NewTable returns a table for a policy.
func NewTable(p Policy) (*Table, error) {
	made := time.Now()
	t := &Table{
		clock: func() time.Duration { return time.Since(made) },
		known: make(map[netip.Addr]*known),
		due:   make(map[int64][]netip.Addr),
	}
	if err := t.Update(p); err != nil {
		return nil, err
	}
	return t, nil
}

// Decide reports whether a port may be reached.
func (t *Table) Decide(p Proto, dst netip.AddrPort) Verdict {
	addr := dst.Addr().Unmap().WithZone("")
	if !addr.IsValid() {
		return Verdict{}
	}
	s := t.state.Load()
	block := s.find(addr)
	v := Verdict{Allowed: block.ports.Allows(p, dst.Port()), Special: block.what}
	if e := s.learned.find(addr); e != nil {
		if t.clock() >= e.until {
			t.refresh(addr)
			return t.Decide(p, dst)
		}
		v.Host = e.host
		v.Allowed = v.Allowed || e.ports.Allows(p, dst.Port())
	}
	return v
}

// refresh brings the entry of an address up to date after a name of it has expired. If
// the sink cannot follow, Expire tells it again.
func (t *Table) refresh(addr netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.relearn(addr, t.clock())
}

// Policy returns the policy in force.
func (t *Table) Policy() Policy { return t.state.Load().policy }

// AllowsName reports whether the sandbox may ask for the addresses of a name, which must be canonical.
func (t *Table) AllowsName(name string) bool {
	for range t.state.Load().matching(name) {
		return true
	}
	return false
}

// Names returns the names for which the sandbox was given an address and that are still valid, latest last.
func (t *Table) Names(addr netip.Addr) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	if k := t.known[addr.Unmap().WithZone("")]; k != nil {
		for _, n := range k.names {
			if t.clock() < n.until {
				list = append(list, n.name)
			}
		}
	}
	return list
}

// Update replaces the policy atomically. Learned addresses are kept, and the new rules apply to them. After an error
// the old policy remains in force.
func (t *Table) Update(p Policy) error {
	if p.HostAddrs == nil {
		own, err := OwnAddrs()
		if err != nil {
			return err
		}
		p.HostAddrs = own
	}
	c, err := compile(p)
	if err != nil {
		return &Error{Op: "update", Err: err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Rules, p.HostAddrs = slices.Clone(p.Rules), slices.Clone(p.HostAddrs)
	s := &state{compiled: c, policy: p, learned: newLearned(len(t.known))}
	now := t.clock()
	for addr, k := range t.known {
		e, err := s.judge(addr, k.names, now)
		if err != nil {
			return &Error{Op: "update", Err: err}
		}
		if e != nil {
			s.learned.put(e)
		}
	}
	if t.sink != nil {
		if err := t.sink.Switch(s.generation(t.gen + 1)); err != nil {
			return &Error{Op: "update", Err: err}
		}
		t.switched(s)
	}
	t.gen++
	t.state.Store(s)
	return nil
}

// An Answer is an address of a name, with its time to live.
type Answer struct {
	Addr netip.Addr
	TTL  time.Duration
}

// Learn adds the addresses of a name, which must be canonical, and returns those that the sandbox may learn: special
// addresses only if a rule opens them directly. When Learn returns, the enforcers know them. They stay usable for their
// time to live plus Grace, and with Always as long as the rules allow the name. After an error, tell the sandbox none
// of them.
func (t *Table) Learn(name string, answers []Answer) ([]Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.AllowsName(name) {
		return nil, &Error{"learn", name, ErrNotAllowed}
	}
	now := t.clock()
	t.expire(now)
	var told []Answer
	for _, a := range answers {
		addr := a.Addr.Unmap().WithZone("")
		if !addr.IsValid() {
			continue
		}
		if b := t.state.Load().find(addr); b.what != "" && b.Set == 0 {
			continue
		}
		k := t.known[addr]
		if k == nil {
			if len(t.known) >= MaxLearned {
				return nil, &Error{"learn", name, ErrFull}
			}
			k = new(known)
			t.known[addr] = k
		}
		until := Always
		if a.TTL != Always {
			until = now + min(max(a.TTL, 0), maxTTL) + Grace
		}
		k.give(name, until)
		err := t.trim(k)
		if err == nil {
			err = t.relearn(addr, now)
		}
		if err != nil {
			return nil, &Error{"learn", name, err}
		}
		told = append(told, Answer{addr, a.TTL})
	}
	return told, nil
}

// give notes a name as the latest.
func (k *known) give(name string, until time.Duration) {
	for i, n := range k.names {
		if n.name == name {
			until = max(until, n.until)
			k.names = slices.Delete(k.names, i, i+1)
			break
		}
	}
	k.names = append(k.names, givenFor{name, until})
}

// maxGiven is how many names of one address are kept, and as many more as open other ports each: a server can say of
// any number of names that they have the same address.
const maxGiven = 64

// trim forgets a name if there are too many: of those with an equal one, which opens the same ports at least as long,
// the one that expires first. So it closes nothing. The latest name stays.
func (t *Table) trim(k *known) error {
	if len(k.names) <= maxGiven {
		return nil
	}
	s := t.state.Load()
	sets := make(map[uint32]int, 1) // which of the names with a set expires first
	drop := -1
	for i, n := range k.names[:len(k.names)-1] {
		id, _, err := s.name(n.name)
		if err != nil {
			return err
		}
		first, more := sets[id]
		if !more || n.until < k.names[first].until {
			sets[id] = i
		}
		if more && n.until >= k.names[first].until {
			i = first
		}
		if more && (drop < 0 || k.names[i].until < k.names[drop].until) {
			drop = i
		}
	}
	if drop >= 0 {
		k.names = slices.Delete(k.names, drop, drop+1)
	}
	return nil
}

// relearn makes the entry of an address anew, here and at the sink.
func (t *Table) relearn(addr netip.Addr, now time.Duration) error {
	k := t.known[addr]
	if k == nil {
		return nil
	}
	k.names = slices.DeleteFunc(k.names, func(n givenFor) bool { return now >= n.until })
	s := t.state.Load()
	e, err := s.judge(addr, k.names, now)
	var id uint32
	if e != nil {
		id = e.id
		s.learned.put(e)
		if e.until != Always {
			t.schedule(addr, k, int64(e.until/time.Second)+1)
		}
	} else {
		s.learned.remove(addr)
	}
	if t.sink != nil && id != k.sent {
		if failed := t.tell(s, addr, id); failed != nil {
			// Until the sink has followed, the address is not forgotten.
			t.schedule(addr, k, int64(now/time.Second)+1)
			return failed
		}
		k.sent = id
	}
	if len(k.names) == 0 {
		delete(t.known, addr)
	}
	return err
}

// tell gives the sink the set of an address.
func (t *Table) tell(s *state, addr netip.Addr, id uint32) error {
	for ; t.sent < len(s.sets.list); t.sent++ {
		if err := t.sink.AddSet(uint32(t.sent), s.sets.list[t.sent]); err != nil {
			return err
		}
	}
	if id == 0 {
		return t.sink.Forget(addr)
	}
	return t.sink.Learn(addr, id)
}

// schedule makes expire look at an address in some second, or before.
func (t *Table) schedule(addr netip.Addr, k *known, second int64) {
	if k.due != 0 && k.due <= second {
		return
	}
	if k.due != 0 {
		t.stale++ // it stays where it was
	}
	k.due = second
	t.due[second] = append(t.due[second], addr)
	if t.stale > len(t.known) {
		t.stale = 0
		clear(t.due)
		for addr, k := range t.known {
			if k.due != 0 {
				t.due[k.due] = append(t.due[k.due], addr)
			}
		}
	}
}

// Expire removes expired addresses. Decide does not need it, but Sinks do: the Resolver, and the Enforcer of package
// cgroup, call it every second.
func (t *Table) Expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(t.clock())
}

func (t *Table) expire(now time.Duration) {
	for ; t.swept <= int64(now/time.Second); t.swept++ {
		for _, addr := range t.due[t.swept] {
			if k := t.known[addr]; k != nil && k.due == t.swept {
				k.due = 0
				_ = t.relearn(addr, now) // what fails is scheduled again
			}
		}
		delete(t.due, t.swept)
	}
}

// judge makes the entry of an address from its names; nil if none is valid.
func (s *state) judge(addr netip.Addr, names []givenFor, now time.Duration) (*entry, error) {
	var e *entry
	var id uint32 // of what its names allow
	block := s.find(addr)
	for _, n := range names {
		if now >= n.until {
			continue
		}
		if e == nil {
			e = &entry{addr: addr, until: n.until}
		}
		e.host = n.name
		e.until = min(e.until, n.until)
		if block.what != "" {
			continue
		}
		more, _, err := s.name(n.name)
		if err == nil {
			id, err = s.sets.union(id, more)
		}
		if err != nil {
			return nil, err
		}
	}
	if e == nil {
		return nil, nil
	}
	e.ports = s.sets.list[id]
	if id == 0 {
		return e, nil
	}
	var err error
	if e.id, err = s.sets.union(id, block.Set); err != nil {
		return nil, err
	}
	return e, nil
}

// A Sink mirrors a table for an enforcer that does not call Decide. The set of a learned address decides, or if there
// is none, the set of the smallest Block around the address. Calls are never made at the same time.
type Sink interface {
	// Switch replaces everything by another generation, atomically. If it fails, everything must be as before.
	Switch(*Generation) error
	// AddSet adds a set to the current generation.
	AddSet(id uint32, s Set) error
	// Learn sets the set of an address, which replaces its previous set, or that of its Block.
	Learn(addr netip.Addr, id uint32) error
	// Forget removes the set of an address.
	Forget(addr netip.Addr) error
}

// A Generation is everything that a Sink needs to know at one moment.
type Generation struct {
	Number  uint32
	Sets    []Set                         // by their number; number 0 is empty
	Blocks  []Block                       // as far as they matter; 0.0.0.0/0 and ::/0 always do
	Learned iter.Seq2[netip.Addr, uint32] // none with set 0
}

// Attach makes s follow the table from now on, beginning with a Switch. A table has at most one Sink; nil detaches it.
func (t *Table) Attach(s Sink) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s != nil {
		if err := s.Switch(t.state.Load().generation(t.gen)); err != nil {
			return &Error{Op: "attach", Err: err}
		}
		t.switched(t.state.Load())
	}
	t.sink = s
	return nil
}

// switched notes what the sink has after a Switch.
func (t *Table) switched(s *state) {
	t.sent = len(s.sets.list)
	for addr, k := range t.known {
		k.sent = 0
		if e := s.learned.find(addr); e != nil {
			k.sent = e.id
		}
	}
}

func (s *state) generation(n uint32) *Generation {
	return &Generation{Number: n, Sets: slices.Clone(s.sets.list), Blocks: s.matter, Learned: s.learned.all()}
}
