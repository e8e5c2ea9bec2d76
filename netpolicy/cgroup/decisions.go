//go:build linux

package cgroup

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nsrun/nsrun/netpolicy"
)

const (
	decisionSize = 32
	seenSize     = 16
	budgetSize   = 24
	eventSize    = decisionSize + 16
)

// decode reads a struct decision.
func decode(b []byte) (sandbox uint64, d Decision) {
	addr := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	return binary.LittleEndian.Uint64(b), Decision{
		Time:    time.Now(),
		Proto:   netpolicy.Proto(b[26]),
		Dst:     netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[24:])),
		Hook:    Hook(b[27]),
		Allowed: b[28] != 0,
	}
}

// read hands out what the programs tell.
func (p *Programs) read() {
	defer p.done.Done()
	p.ring.wait(p.take)
}

// take hands out what they have told so far.
func (p *Programs) take() {
	p.taking.Lock()
	defer p.taking.Unlock()
	p.ring.take(func(record []byte) {
		if len(record) < eventSize {
			return
		}
		sandbox, d := decode(record)
		d.Count = binary.LittleEndian.Uint64(record[decisionSize:])
		if d.Hook != PacketOut && d.Hook != PacketIn {
			d.PID = int(binary.LittleEndian.Uint32(record[decisionSize+8:]))
		}
		p.mu.Lock()
		e := p.sandboxes[sandbox]
		p.mu.Unlock()
		if e != nil && e.options.Decided != nil {
			e.options.Decided(d)
		}
	})
}

// flush has everything told that the programs have of the sandbox, in which nobody is any more.
func (e *Enforcer) flush() {
	if e.options.Decided == nil {
		return
	}
	p := e.programs
	p.take()
	p.taking.Lock()
	defer p.taking.Unlock()
	seen := p.maps[mapSeen]
	var mine [][decisionSize]byte
	var after *[decisionSize]byte
	for range allMaps[mapSeen].entries {
		var key [decisionSize]byte
		var value [seenSize]byte
		if next(seen, after, &key) != nil {
			break
		}
		after = &key
		if sandbox, d := decode(key[:]); sandbox == e.id && lookup(seen, &key, &value) == nil {
			mine = append(mine, key)
			if d.Count = binary.LittleEndian.Uint64(value[8:]); d.Count > 0 {
				e.options.Decided(d)
			}
		}
	}
	_ = removeAll(seen, mine)
}
