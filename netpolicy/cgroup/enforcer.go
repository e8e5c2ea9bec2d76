//go:build linux

package cgroup

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/netpolicy"
)

// An Enforcer makes the kernel follow a table for the processes in one cgroup.
type Enforcer struct {
	programs *Programs
	owned    bool // the programs are closed with it
	table    *netpolicy.Table
	options  Options
	group    *cgroups.Group
	id       uint64
	closing  sync.Once
	closed   error
	stop     chan struct{} // closed when expire is to end

	ended bool   // under programs.mu: the maps have nothing of it
	lost  uint64 // then

	generation uint32 // in force; 0: none
	keys       *keys  // its keys
	previous   *keys  // of the generation before
}

// New is Load and Programs.Enforce in one, for one sandbox.
func New(t *netpolicy.Table, o Options) (*Enforcer, error) {
	p, err := Load()
	if err != nil {
		return nil, err
	}
	e, err := p.Enforce(t, o)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	e.owned = true
	return e, nil
}

// Enforce makes a cgroup in which the table is enforced, and follows the table until Enforcer.Close. A table can have
// one enforcer.
func (p *Programs) Enforce(t *netpolicy.Table, o Options) (*Enforcer, error) {
	g, err := p.child()
	if err != nil {
		return nil, failed("cgroup", "", err)
	}
	return p.enforceIn(g, t, o)
}

// enforceIn has the table enforced in a cgroup, which is the Enforcer's own then.
func (p *Programs) enforceIn(g *cgroups.Group, t *netpolicy.Table, o Options) (*Enforcer, error) {
	e := &Enforcer{programs: p, table: t, options: o, group: g, stop: make(chan struct{})}
	err := e.register()
	if err != nil {
		g.Discard() // the maps and the ring may be gone
	} else if err = e.begin(); err != nil {
		_ = e.Close()
	}
	if err != nil {
		return nil, failed("enforce", "", err)
	}
	return e, nil
}

// register keeps the programs from being closed, as long as the Enforcer is not.
func (e *Enforcer) register() (err error) {
	if e.id, err = e.group.ID(); err != nil {
		return err
	}
	p := e.programs
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	p.sandboxes[e.id] = e
	p.served++
	return nil
}

// begin tells the programs of the sandbox.
func (e *Enforcer) begin() error {
	p := e.programs
	if e.options.Decided != nil {
		if err := put(p.maps[mapBudgets], &e.id, &[budgetSize]byte{}); err != nil {
			return err
		}
	}
	for _, port := range e.options.Publish {
		key, value := newPublishedKey(e.id, port), byte(1)
		if err := put(p.maps[mapPublished], &key, &value); err != nil {
			return err
		}
	}
	if err := e.table.Attach(e.sink()); err != nil {
		return err
	}
	go e.expire()
	return nil
}

// expire has the table forget what has expired. A Resolver does so too, but the kernel knows of no time:
// where nobody resolves names any more, what was learned would stay open for ever.
func (e *Enforcer) expire() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.table.Expire()
		case <-e.stop:
			return
		}
	}
}

// Cgroup returns the open directory of the sandbox's cgroup. The Enforcer closes it.
func (e *Enforcer) Cgroup() *os.File { return e.group.Dir }

// Close kills the processes that are still in the cgroup, which is then removed in the background; if that fails,
// Programs.Close returns the error. The table can then have another enforcer.
func (e *Enforcer) Close() error {
	e.closing.Do(func() { e.closed = e.close() })
	return e.closed
}

func (e *Enforcer) close() error {
	p := e.programs
	if err := e.group.End(); err != nil {
		// Processes that are inside stay under the present rules.
		return failed("kill", e.group.Name, err)
	}
	close(e.stop)
	_ = e.table.Attach(nil) // from here on expire does nothing here
	e.flush()
	p.mu.Lock()
	e.lost, e.ended = e.countLost(), true
	p.mu.Unlock()
	_ = remove(p.maps[mapSandboxes], &e.id)
	_ = remove(p.maps[mapBudgets], &e.id)
	for _, port := range e.options.Publish {
		key := newPublishedKey(e.id, port)
		_ = remove(p.maps[mapPublished], &key)
	}
	w := waste{group: e.group}
	for _, k := range [...]*keys{e.keys, e.previous} {
		if k != nil {
			w.keys = append(w.keys, k)
		}
	}
	p.waste <- w // open as long as there are sandboxes
	p.mu.Lock()
	delete(p.sandboxes, e.id)
	p.mu.Unlock()
	if e.owned {
		return p.Close()
	}
	return nil
}

// sink is the Enforcer as the table sees it. The table calls its methods one after the other.
func (e *Enforcer) sink() netpolicy.Sink { return (*sink)(e) }

type sink Enforcer

// Switch writes a generation beside the one in force, and then its number.
func (s *sink) Switch(g *netpolicy.Generation) error {
	m := &s.programs.maps
	number := s.programs.count.Add(1)
	k := &keys{single: make(map[blockKey]uint32), learned: make(map[netip.Addr]blockKey)}
	err := s.fill(m, k, number, g)
	if err == nil {
		value := newSandbox(number, s.generation, &s.options)
		err = put(m[mapSandboxes], &s.id, &value)
	}
	if err != nil {
		_ = k.delete(m)
		return failed("switch", "", err)
	}
	old := s.previous
	s.generation, s.keys, s.previous = number, k, s.keys
	if old != nil {
		s.programs.waste <- waste{keys: []*keys{old}}
	}
	return nil
}

// fill writes the maps of a generation, and notes in k what it may have written.
func (s *sink) fill(m *maps, k *keys, number uint32, g *netpolicy.Generation) error {
	for id, set := range g.Sets {
		for p := range set.Prefixes() {
			k.ports = append(k.ports, newPortKey(number, uint32(id), p))
		}
	}
	sets := make([]uint32, len(g.Blocks))
	for i, b := range g.Blocks {
		key := newBlockKey(number, b.Prefix)
		k.blocks = append(k.blocks, key)
		sets[i] = b.Set
		if b.Prefix.IsSingleIP() {
			k.single[key] = b.Set
		}
	}
	var addrs []blockKey
	var ids []uint32
	for a, id := range g.Learned {
		key := newAddrKey(number, a)
		k.learned[a] = key
		addrs, ids = append(addrs, key), append(ids, id)
	}
	if err := putAll(m[mapPorts], k.ports, make([]byte, len(k.ports))); err != nil {
		return err
	}
	if err := putAll(m[mapBlocks], k.blocks, sets); err != nil {
		return err
	}
	return putAll(m[mapBlocks], addrs, ids)
}

// AddSet adds a set of ports.
func (s *sink) AddSet(id uint32, set netpolicy.Set) error {
	var more []portKey
	for p := range set.Prefixes() {
		more = append(more, newPortKey(s.generation, id, p))
	}
	s.keys.ports = append(s.keys.ports, more...)
	if err := putAll(s.programs.maps[mapPorts], more, make([]byte, len(more))); err != nil {
		return failed("learn", "", err)
	}
	return nil
}

// Learn gives an address a set.
func (s *sink) Learn(a netip.Addr, id uint32) error {
	key := newAddrKey(s.generation, a)
	s.keys.learned[a] = key
	if err := put(s.programs.maps[mapBlocks], &key, &id); err != nil {
		return failed("learn", a.String(), err)
	}
	return nil
}

// Forget takes it away; a rule for the address stays.
func (s *sink) Forget(a netip.Addr) error {
	key, ok := s.keys.learned[a]
	if !ok {
		return nil
	}
	blocks := s.programs.maps[mapBlocks]
	var err error
	if set, ok := s.keys.single[key]; ok {
		err = put(blocks, &key, &set)
	} else {
		err = remove(blocks, &key)
	}
	if err != nil {
		return failed("forget", a.String(), err)
	}
	delete(s.keys.learned, a)
	return nil
}

// Lost returns how many decisions were not reported, because there were too many. After Close the number is final.
func (e *Enforcer) Lost() uint64 {
	e.programs.mu.Lock()
	defer e.programs.mu.Unlock()
	if e.ended {
		return e.lost
	}
	return e.countLost()
}

func (e *Enforcer) countLost() uint64 {
	var b [budgetSize]byte
	if lookup(e.programs.maps[mapBudgets], &e.id, &b) != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[16:])
}
