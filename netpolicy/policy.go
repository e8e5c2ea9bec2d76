package netpolicy

import "net/netip"

// A Policy says what a sandbox may reach. The zero Policy allows nothing.
type Policy struct {
	Rules []Rule

	// HostAddrs are the host's own addresses, which are special. Nil: nobody has said what they are; a Table
	// finds them (OwnAddrs), and Allows takes every address for one of them. An empty slice that is not nil
	// says that it has none beside loopback ones.
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

// MustParse is ParsePolicy for rules in a program's source. It panics if one is wrong.
func MustParse(rules ...string) Policy {
	p, err := ParsePolicy(rules...)
	if err != nil {
		panic(err)
	}
	return p
}
