package netpolicy

import (
	"hash/maphash"
	"iter"
	"net/netip"
	"sync/atomic"
	"time"
)

// An entry is what Decide needs to know about a learned address. Nothing of it changes but next.
type entry struct {
	addr  netip.Addr
	next  link
	until time.Duration // the first of its names expires then
	ports Set
	host  string // the latest of its names
	id    uint32 // what a Sink is told: the set of ports, and of its Block; 0 where ports is empty
}

type link = atomic.Pointer[entry]

// learned is a hash table of entries that is read without a lock: readers follow a chain while the writer, one at a
// time, removes links or replaces them. A reader that stands on a removed link continues from there.
type learned struct {
	seed  maphash.Seed
	heads atomic.Pointer[[]link]
	count int
}

// newLearned returns an empty table with room for n entries.
func newLearned(n int) *learned {
	l := &learned{seed: maphash.MakeSeed()}
	size := 64
	for size < n {
		size *= 2
	}
	heads := make([]link, size)
	l.heads.Store(&heads)
	return l
}

// head returns where the chain of an address begins.
func (l *learned) head(heads []link, a netip.Addr) *link {
	b := a.As16()
	return &heads[maphash.Bytes(l.seed, b[:])&uint64(len(heads)-1)]
}

// find returns the entry of an address, or nil.
func (l *learned) find(a netip.Addr) *entry {
	e := l.head(*l.heads.Load(), a).Load()
	for e != nil && e.addr != a {
		e = e.next.Load()
	}
	return e
}

// link returns the link to the entry of an address, or to nothing at the end of its chain.
func (l *learned) link(a netip.Addr) *link {
	at := l.head(*l.heads.Load(), a)
	for e := at.Load(); e != nil && e.addr != a; e = at.Load() {
		at = &e.next
	}
	return at
}

// put adds an entry, or replaces the one for its address: a reader finds either the old or the new one.
func (l *learned) put(e *entry) {
	if heads := *l.heads.Load(); l.count >= len(heads) {
		l.grow(heads)
	}
	at := l.link(e.addr)
	if old := at.Load(); old != nil {
		e.next.Store(old.next.Load())
	} else {
		l.count++
	}
	at.Store(e)
}

func (l *learned) remove(a netip.Addr) {
	at := l.link(a)
	if e := at.Load(); e != nil {
		at.Store(e.next.Load())
		l.count--
	}
}

// grow doubles the number of chains. Readers continue along the old chains meanwhile, so the new ones consist of
// copies.
func (l *learned) grow(old []link) {
	heads := make([]link, 2*len(old))
	for i := range old {
		for e := old[i].Load(); e != nil; e = e.next.Load() {
			at := l.head(heads, e.addr)
			c := &entry{addr: e.addr, until: e.until, ports: e.ports, host: e.host, id: e.id}
			c.next.Store(at.Load())
			at.Store(c)
		}
	}
	l.heads.Store(&heads)
}

// all yields the addresses and their sets, leaving out those with set 0.
func (l *learned) all() iter.Seq2[netip.Addr, uint32] {
	return func(yield func(netip.Addr, uint32) bool) {
		heads := *l.heads.Load()
		for i := range heads {
			for e := heads[i].Load(); e != nil; e = e.next.Load() {
				if e.id != 0 && !yield(e.addr, e.id) {
					return
				}
			}
		}
	}
}
