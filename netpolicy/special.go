package netpolicy

import (
	"net/netip"
	"slices"
)

// specialRanges are the addresses that only a rule with a prefix inside the range opens. An address belongs to the
// smallest range that contains it.
//
// The ranges for documentation are not listed: nothing is there, and tests need addresses that behave like public ones.
var specialRanges = [...]struct{ prefix, what string }{
	{"0.0.0.0/8", "unspecified"}, // connect(2) takes 0.0.0.0 for this machine
	{"10.0.0.0/8", "private"},
	{"100.64.0.0/10", "private"},
	{"100.100.100.200/32", "metadata"}, // Alibaba
	{"127.0.0.0/8", "loopback"},
	{"168.63.129.16/32", "metadata"}, // Azure
	{"169.254.0.0/16", "link-local"},
	{"169.254.169.254/32", "metadata"},
	{"169.254.170.2/32", "metadata"},  // AWS, for containers
	{"169.254.170.23/32", "metadata"}, // AWS, for pods
	{"172.16.0.0/12", "private"},
	{"192.0.0.0/24", "reserved"},
	{"192.0.0.192/32", "metadata"}, // Oracle
	{"192.88.99.0/24", "reserved"},
	{"192.168.0.0/16", "private"},
	{"198.18.0.0/15", "reserved"},
	{"224.0.0.0/4", "multicast"},
	{"240.0.0.0/4", "reserved"},
	{"255.255.255.255/32", "broadcast"},

	{"::/96", "unspecified"}, // and the old form of IPv4 addresses
	{"::1/128", "loopback"},
	{"::ffff:0:0:0/96", "translated"},
	{"64:ff9b:1::/48", "translated"}, // where the IPv4 address stands is up to the network
	{"100::/64", "reserved"},
	{"2001::/32", "translated"}, // Teredo
	{"5f00::/16", "reserved"},
	{"fc00::/7", "private"},
	{"fd00:ec2::23/128", "metadata"},  // AWS, for pods
	{"fd00:ec2::254/128", "metadata"}, // AWS
	{"fd20:ce::254/128", "metadata"},  // Google
	{"fe80::/10", "link-local"},
	{"fec0::/10", "private"},
	{"ff00::/8", "multicast"},
}

// Both of these have an IPv4 address right behind the prefix.
var embeddings = [...]string{"64:ff9b::/96", "2002::/16"}

// special returns the smallest special range that holds an address, and what it is;
// "" if there is none. This is the model's way, a loop over texts.
func special(a netip.Addr, own []netip.Addr) (netip.Prefix, string) {
	for _, o := range own {
		if o.Unmap().WithZone("") == a && !a.IsLoopback() {
			return netip.PrefixFrom(a, a.BitLen()), "own"
		}
	}
	for _, text := range embeddings {
		if e := netip.MustParsePrefix(text); e.Contains(a) {
			p, what := special(extract(e, a), own)
			if what == "" {
				return netip.Prefix{}, ""
			}
			return embed(e, p), what
		}
	}
	var best netip.Prefix
	what := ""
	for _, s := range specialRanges {
		if p := netip.MustParsePrefix(s.prefix); p.Contains(a) && (what == "" || p.Bits() > best.Bits()) {
			best, what = p, s.what
		}
	}
	return best, what
}

// extract returns the IPv4 address behind the prefix e.
func extract(e netip.Prefix, a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[e.Bits()/8:]))
}

// embed puts an IPv4 prefix behind the prefix e.
func embed(e, p netip.Prefix) netip.Prefix {
	b := e.Addr().As16()
	v4 := p.Addr().As4()
	copy(b[e.Bits()/8:], v4[:])
	return netip.PrefixFrom(netip.AddrFrom16(b), e.Bits()+p.Bits())
}

// A specialRange is one of the ranges above, or one of the host's addresses.
type specialRange struct {
	prefix netip.Prefix
	what   string
}

// allSpecial lists what special finds, each prefix once.
func allSpecial(own []netip.Addr) []specialRange {
	var list []specialRange
	seen := make(map[netip.Prefix]int)
	add := func(p netip.Prefix, what string) {
		if i, ok := seen[p]; ok {
			list[i].what = what
			return
		}
		seen[p] = len(list)
		list = append(list, specialRange{p, what})
	}
	for _, s := range specialRanges {
		add(netip.MustParsePrefix(s.prefix), s.what)
	}
	addOwn := func(ipv4 bool) {
		for _, o := range own {
			if o = o.Unmap().WithZone(""); o.IsValid() && !o.IsLoopback() && o.Is4() == ipv4 {
				add(netip.PrefixFrom(o, o.BitLen()), "own")
			}
		}
	}
	addOwn(true)
	for _, text := range embeddings {
		e := netip.MustParsePrefix(text)
		for _, s := range slices.Clone(list) {
			if s.prefix.Addr().Is4() {
				add(embed(e, s.prefix), s.what)
			}
		}
	}
	addOwn(false) // after the others, for one of these may be among them
	return list
}
