//go:build linux

package cgroup

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/netpolicy"
)

// Keys of the maps, as bpf/enforce.c has them. What the kernel compares bit by bit is in network byte order; numbers of
// generations and sets are ours, in the byte order of all machines that the programs are compiled for.

type blockKey [24]byte // struct block

func newBlockKey(generation uint32, p netip.Prefix) (k blockKey) {
	bits := 32 + p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	binary.LittleEndian.PutUint32(k[0:], uint32(bits))
	binary.LittleEndian.PutUint32(k[4:], generation)
	a := p.Addr().As16()
	copy(k[8:], a[:])
	return k
}

func newAddrKey(generation uint32, a netip.Addr) blockKey {
	return newBlockKey(generation, netip.PrefixFrom(a, a.BitLen()))
}

type portKey [16]byte // struct port

func newPortKey(generation, set uint32, p netpolicy.PortPrefix) (k portKey) {
	binary.LittleEndian.PutUint32(k[0:], 80+uint32(p.Bits))
	binary.LittleEndian.PutUint32(k[4:], generation)
	binary.LittleEndian.PutUint32(k[8:], set)
	k[12] = byte(p.Proto)
	binary.BigEndian.PutUint16(k[14:], p.Port)
	return k
}

type publishedKey [16]byte // struct published

func newPublishedKey(sandbox uint64, port uint16) (k publishedKey) {
	binary.LittleEndian.PutUint64(k[0:], sandbox)
	binary.BigEndian.PutUint16(k[8:], port)
	return k
}

func newSandbox(generation, previous uint32, o *Options) (v [40]byte) {
	binary.LittleEndian.PutUint32(v[0:], generation)
	if o.AllowAll {
		v[4] = allowAll
	}
	if o.Resolver.IsValid() {
		binary.BigEndian.PutUint16(v[6:], o.Resolver.Port())
		a := o.Resolver.Addr().As16()
		copy(v[8:], a[:])
	}
	var now unix.Timespec
	if previous != 0 && unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		binary.LittleEndian.PutUint64(v[24:], uint64(now.Nano()+int64(overlap)))
		binary.LittleEndian.PutUint32(v[32:], previous)
	}
	return v
}

// overlap is how long the first packet of a connection may go by the rules before: as long as a program
// may not get a processor between that its connect(2) was allowed and that it was done.
const overlap = time.Second

const allowAll = 1 // enum flags

type keys struct {
	blocks  []blockKey
	single  map[blockKey]uint32 // blocks of one address, with their sets
	ports   []portKey
	learned map[netip.Addr]blockKey
}

// delete takes them out of the maps.
func (k *keys) delete(m *maps) error {
	blocks := slices.Clone(k.blocks)
	for _, key := range k.learned {
		blocks = append(blocks, key)
	}
	return errors.Join(removeAll(m[mapBlocks], blocks), removeAll(m[mapPorts], k.ports))
}
