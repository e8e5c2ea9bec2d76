package netpolicy

import (
	"cmp"
	"encoding/binary"
	"errors"
	"iter"
	"math/bits"
	"slices"
	"sort"
)

// A Set is a set of ports of protocols, independent of hosts. The zero Set is empty. Sets are immutable.
type Set struct {
	ranges []portRange // sorted, neither overlapping nor adjacent
}

type portRange struct {
	proto       Proto // TCP or UDP
	first, last uint16
}

// Allows reports whether the set has a port.
func (s Set) Allows(p Proto, port uint16) bool {
	i := sort.Search(len(s.ranges), func(i int) bool {
		r := &s.ranges[i]
		return r.proto > p || r.proto == p && r.last >= port
	})
	return i < len(s.ranges) && s.ranges[i].proto == p && s.ranges[i].first <= port
}

// A PortPrefix stands for the ports whose first Bits bits are those of Port, as in a longest-prefix-match map of the
// kernel (BPF_MAP_TYPE_LPM_TRIE).
type PortPrefix struct {
	Proto Proto
	Port  uint16
	Bits  uint8 // 0 to 16
}

// Prefixes yields the smallest list of prefixes that together are the set.
func (s Set) Prefixes() iter.Seq[PortPrefix] {
	return func(yield func(PortPrefix) bool) {
		for _, r := range s.ranges {
			for lo, end := uint32(r.first), uint32(r.last)+1; lo < end; {
				// The largest aligned block that begins at lo and does not go beyond the end.
				size := uint32(1) << min(bits.TrailingZeros32(lo|1<<16), bits.Len32(end-lo)-1)
				if !yield(PortPrefix{r.proto, uint16(lo), uint8(16 - bits.TrailingZeros32(size))}) {
					return
				}
				lo += size
			}
		}
	}
}

func rangesOf(r Rule) []portRange {
	first, last := r.First, r.Last
	if first == 0 && last == 0 {
		last = 65535
	}
	if first > last {
		return nil
	}
	switch r.Proto {
	case AnyProto:
		return []portRange{{TCP, first, last}, {UDP, first, last}}
	case TCP, UDP:
		return []portRange{{r.Proto, first, last}}
	}
	return nil
}

func normal(ranges []portRange) []portRange {
	slices.SortFunc(ranges, func(a, b portRange) int {
		return cmp.Or(cmp.Compare(a.proto, b.proto), cmp.Compare(a.first, b.first))
	})
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out) - 1; n >= 0 && out[n].proto == r.proto && uint32(r.first) <= uint32(out[n].last)+1 {
			out[n].last = max(out[n].last, r.last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// maxRanges bounds what the sets of one generation need. A policy needs so many only if
// thousands of its rules lie in each other with thousands of different ports, or names with
// hundreds of ports lead to thousands of addresses that have rules of their own.
const maxRanges = 1 << 20

var errRanges = errors.New("the rules have too many different sets of ports")

// interned holds each Set once, by number; number 0 is the empty Set.
type interned struct {
	list   []Set
	ids    map[string]uint32
	unions map[[2]uint32]uint32
	ranges int
}

func newInterned() *interned {
	return &interned{
		list:   []Set{{}},
		ids:    map[string]uint32{"": 0},
		unions: make(map[[2]uint32]uint32),
	}
}

// add returns the number of a set.
func (in *interned) add(ranges []portRange) (uint32, error) {
	ranges = normal(ranges)
	key := make([]byte, 0, 5*len(ranges))
	for _, r := range ranges {
		key = append(key, byte(r.proto))
		key = binary.BigEndian.AppendUint16(key, r.first)
		key = binary.BigEndian.AppendUint16(key, r.last)
	}
	if id, ok := in.ids[string(key)]; ok {
		return id, nil
	}
	if in.ranges+len(ranges) > maxRanges {
		return 0, errRanges
	}
	in.ranges += len(ranges)
	id := uint32(len(in.list))
	in.list = append(in.list, Set{slices.Clone(ranges)})
	in.ids[string(key)] = id
	return id, nil
}

// union returns the number of what is in a or b.
func (in *interned) union(a, b uint32) (uint32, error) {
	if a == b || b == 0 {
		return a, nil
	}
	if a == 0 {
		return b, nil
	}
	key := [2]uint32{min(a, b), max(a, b)}
	if id, ok := in.unions[key]; ok {
		return id, nil
	}
	id, err := in.add(slices.Concat(in.list[a].ranges, in.list[b].ranges))
	if err == nil {
		in.unions[key] = id
	}
	return id, err
}
