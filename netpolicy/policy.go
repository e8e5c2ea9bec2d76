package netpolicy

import "net/netip"

// A Policy says what a sandbox may reach. The zero Policy allows nothing.
type Policy struct {
	Rules []Rule

	// HostAddrs are the host's own addresses, which are special. Nil: they are unknown; a Table then finds them out
	// (OwnAddrs), and Allows treats every address as one of them. Empty but not nil: the host has only loopback
	// addresses.
	HostAddrs []netip.Addr
}

// ParsePolicy returns a Policy with these rules.
func ParsePolicy(rules ...string) (Policy, error) {
	var p Policy
	for _, text := range rules {
		r, err := Parse(text)
		if err != nil {
			return Policy{}, err
		}
		p.Rules = append(p.Rules, r)
	}
	return p, nil
}

// MustParse is like ParsePolicy, but panics if a rule is wrong. It is for rules in a program's source.
func MustParse(rules ...string) Policy {
	p, err := ParsePolicy(rules...)
	if err != nil {
		panic(err)
	}
	return p
}
