package netpolicy

import (
	"cmp"
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// A Block is a prefix with the Set of ports that the rules allow there. The Set includes the rules of larger prefixes,
// so the longest prefix that contains an address decides.
type Block struct {
	Prefix netip.Prefix
	Set    uint32
	ports  Set    // that set
	what   string // why it is special; "" if it is not
}

// compiled is a policy in the form that lookups want.
type compiled struct {
	sets   *interned
	blocks []Block // sorted; both 0.0.0.0/0 and ::/0 are there
	matter []Block // the two, and those that allow other ports than the next larger one
	begin4 begins[uint32]
	begin6 begins[uint128]
	exact  map[string]uint32
	suffix map[string]uint32

	any     uint32 // what "*" allows
	anyRule bool
}

// begins says at which addresses of a family, in their order, which block begins to count.
type begins[A comparable] struct {
	addrs  []A
	blocks []int32
}

type uint128 struct{ hi, lo uint64 }

func (b *begins[A]) add(addr A, block int32) {
	if n := len(b.addrs); n > 0 && b.addrs[n-1] == addr {
		b.blocks[n-1] = block
		return
	}
	b.addrs = append(b.addrs, addr)
	b.blocks = append(b.blocks, block)
}

func (a uint128) less(b uint128) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func key4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func key6(a netip.Addr) uint128 {
	b := a.As16()
	return uint128{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
}

func compile(p Policy) (*compiled, error) {
	c := &compiled{sets: newInterned(), exact: make(map[string]uint32), suffix: make(map[string]uint32)}

	// First what the rules say of each host by itself.
	var anyRanges []portRange
	prefixes := map[netip.Prefix][]portRange{
		netip.PrefixFrom(netip.IPv4Unspecified(), 0): nil,
		netip.PrefixFrom(netip.IPv6Unspecified(), 0): nil,
	}
	exact, suffix := make(map[string][]portRange), make(map[string][]portRange)
	for _, r := range p.Rules {
		ranges := rangesOf(r)
		switch {
		case r.Any:
			c.anyRule = true
			anyRanges = append(anyRanges, ranges...)
		case r.Prefix.IsValid():
			prefixes[r.Prefix.Masked()] = append(prefixes[r.Prefix.Masked()], ranges...)
		case r.Host == "":
		case r.Suffix:
			suffix[r.Host] = append(suffix[r.Host], ranges...)
		default:
			exact[r.Host] = append(exact[r.Host], ranges...)
		}
	}
	for prefix := range prefixes {
		if prefix.Bits() == 0 {
			prefixes[prefix] = append(prefixes[prefix], anyRanges...)
		}
	}
	var err error
	if c.any, err = c.sets.add(anyRanges); err != nil {
		return nil, err
	}
	for name, ranges := range exact {
		if c.exact[name], err = c.sets.add(ranges); err != nil {
			return nil, err
		}
	}
	for name, ranges := range suffix {
		if c.suffix[name], err = c.sets.add(ranges); err != nil {
			return nil, err
		}
	}

	// Then all prefixes that matter. Special ranges do, for they cut off what the larger ones allow.
	what := make(map[netip.Prefix]string)
	for _, s := range allSpecial(p.HostAddrs) {
		what[s.prefix] = s.what
		if _, ok := prefixes[s.prefix]; !ok {
			prefixes[s.prefix] = nil
		}
	}
	c.blocks = make([]Block, 0, len(prefixes))
	for prefix, ranges := range prefixes {
		id, err := c.sets.add(ranges)
		if err != nil {
			return nil, err
		}
		c.blocks = append(c.blocks, Block{Prefix: prefix, Set: id, what: what[prefix]})
	}
	slices.SortFunc(c.blocks, func(a, b Block) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	return c, c.nest()
}

// nest hands down what larger blocks allow to the smaller ones in them, and lists where each begins.
func (c *compiled) nest() error {
	var open []int32 // the blocks that hold the current one, the smallest last
	begin := func(addr netip.Addr, block int32) {
		if addr.Is4() {
			c.begin4.add(key4(addr), block)
		} else {
			c.begin6.add(key6(addr), block)
		}
	}
	shut := func() {
		over := c.blocks[open[len(open)-1]].Prefix
		open = open[:len(open)-1]
		if next := lastAddr(over).Next(); next.IsValid() && len(open) > 0 {
			begin(next, open[len(open)-1])
		}
	}
	for i := range c.blocks {
		b := &c.blocks[i]
		for len(open) > 0 && !c.blocks[open[len(open)-1]].Prefix.Contains(b.Prefix.Addr()) {
			shut()
		}
		var around Block
		if len(open) > 0 {
			around = c.blocks[open[len(open)-1]]
		}
		if len(open) > 0 && b.what == "" {
			var err error
			if b.Set, err = c.sets.union(around.Set, b.Set); err != nil {
				return err
			}
			b.what = around.what
		}
		b.ports = c.sets.list[b.Set]
		if len(open) == 0 || b.Set != around.Set {
			c.matter = append(c.matter, *b)
		}
		open = append(open, int32(i))
		begin(b.Prefix.Addr(), int32(i))
	}
	for len(open) > 0 {
		shut()
	}
	return nil
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().As16()
	for i := p.Bits() + 128 - p.Addr().BitLen(); i < 128; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		a = a.Unmap()
	}
	return a
}

// find returns the smallest block that holds an address, which must be valid, without zone, and not IPv4-mapped.
func (c *compiled) find(a netip.Addr) *Block {
	if a.Is4() {
		k := key4(a)
		i := sort.Search(len(c.begin4.addrs), func(i int) bool { return k < c.begin4.addrs[i] })
		return &c.blocks[c.begin4.blocks[i-1]]
	}
	k := key6(a)
	i := sort.Search(len(c.begin6.addrs), func(i int) bool { return k.less(c.begin6.addrs[i]) })
	return &c.blocks[c.begin6.blocks[i-1]]
}

// name returns the set of a canonical name, and whether there is a rule for it at all.
// The table's lock must be held: sets may come into being.
func (c *compiled) name(name string) (id uint32, known bool, err error) {
	id = c.any
	for other := range c.matching(name) {
		known = true
		if id, err = c.sets.union(id, other); err != nil {
			return 0, true, err
		}
	}
	return id, known, nil
}

// matching yields the sets of the rules for a name.
func (c *compiled) matching(name string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if c.anyRule && !yield(c.any) {
			return
		}
		if id, ok := c.exact[name]; ok && !yield(id) {
			return
		}
		for rest := name; ; {
			_, after, ok := strings.Cut(rest, ".")
			if !ok {
				return
			}
			if id, ok := c.suffix[after]; ok && !yield(id) {
				return
			}
			rest = after
		}
	}
}
