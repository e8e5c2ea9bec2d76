package netpolicy

import (
	"net/netip"
	"slices"
)

// Allows reports whether the policy lets a sandbox reach a port of an address. names are the names, in canonical form,
// for which the resolver gave the address to the sandbox and which are still valid.
//
// This is the reference model: it is correct by definition, and Table and the enforcers must agree with it.
func (p Policy) Allows(proto Proto, dst netip.AddrPort, names ...string) bool {
	addr := dst.Addr().Unmap().WithZone("")
	if !addr.IsValid() {
		return false
	}
	inside, what := special(addr, p.HostAddrs)
	if p.HostAddrs == nil && what == "" {
		inside, what = netip.PrefixFrom(addr, addr.BitLen()), "own"
	}
	for _, r := range p.Rules {
		if !r.matchesPort(proto, dst.Port()) {
			continue
		}
		switch {
		case r.Any:
			if what == "" {
				return true
			}
		case r.Prefix.IsValid():
			if r.Prefix.Contains(addr) && (what == "" || within(r.Prefix, inside)) {
				return true
			}
		default:
			for _, name := range names {
				if what == "" && r.MatchesName(name) {
					return true
				}
			}
		}
	}
	return false
}

// AllowsName reports whether the sandbox may ask for the addresses of a name, which must be canonical.
func (p Policy) AllowsName(name string) bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.MatchesName(name) })
}

// within says whether all of p is in q.
func within(p, q netip.Prefix) bool { return p.Bits() >= q.Bits() && q.Contains(p.Addr()) }

// Allowing returns the first rule that allows what asked, a rule for one name or address, asks for: at its port, or if
// it has none, at any port; by its protocol, or if it has none, by TCP if any rule does that, else by UDP. It assumes
// that a name leads to an address that names open.
func (p Policy) Allowing(asked Rule) (Rule, bool) {
	for _, proto := range [...]Proto{TCP, UDP} {
		if asked.Proto != AnyProto && asked.Proto != proto {
			continue
		}
		for _, r := range p.Rules {
			if asked.Host != "" && r.Prefix.IsValid() {
				continue
			}
			port := asked.First
			if port == 0 {
				port = max(r.First, 1)
			}
			one := Policy{Rules: []Rule{r}, HostAddrs: p.HostAddrs}
			to := netip.AddrPortFrom(someAddr, port)
			if asked.Host == "" {
				to = netip.AddrPortFrom(asked.Prefix.Addr(), port)
			}
			if one.Allows(proto, to, asked.Host) {
				return r, true
			}
		}
	}
	return Rule{}, false
}

// someAddr is none of the special addresses.
var someAddr = netip.AddrFrom4([4]byte{192, 0, 2, 1})
