package netpolicy

import (
	"net/netip"
	"strconv"
	"strings"
)

// A Proto is a transport protocol, by its number in IP packets.
type Proto uint8

// Rules are for one protocol or for both. There are no others: traffic of any other protocol is denied.
const (
	AnyProto Proto = 0
	TCP      Proto = 6
	UDP      Proto = 17
)

func (p Proto) String() string {
	switch p {
	case AnyProto:
		return "any"
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return "protocol " + strconv.Itoa(int(p))
}

// A Rule allows some ports of some hosts. Exactly one of Host, Prefix and Any says which
// hosts; a Rule with none of them, such as the zero Rule, allows nothing.
type Rule struct {
	Proto  Proto        // zero: TCP and UDP
	Host   string       // a name as CanonicalName returns it
	Suffix bool         // with Host: all names that end in "." + Host, and not Host itself
	Prefix netip.Prefix // an address is a prefix with all its bits
	Any    bool         // all names, and all addresses that are not special
	First  uint16       // first and last port; both zero: all ports
	Last   uint16
}

// String returns the rule as Parse reads it.
func (r Rule) String() string {
	var b strings.Builder
	if r.Proto != AnyProto {
		b.WriteString(r.Proto.String() + ":")
	}
	ports := r.First != 0 || r.Last != 0
	switch {
	case r.Any:
		b.WriteString("*")
	case r.Prefix.IsValid():
		s := r.Prefix.String()
		if r.Prefix.IsSingleIP() {
			s = r.Prefix.Addr().String()
		}
		if ports && r.Prefix.Addr().Is6() {
			s = "[" + s + "]"
		}
		b.WriteString(s)
	case r.Suffix:
		b.WriteString("*." + r.Host)
	default:
		b.WriteString(r.Host)
	}
	if ports {
		b.WriteString(":" + strconv.Itoa(int(r.First)))
		if r.Last != r.First {
			b.WriteString("-" + strconv.Itoa(int(r.Last)))
		}
	}
	return b.String()
}

// MatchesName reports whether the rule matches a name, which must be canonical. A rule with a prefix matches no name.
func (r Rule) MatchesName(name string) bool {
	switch {
	case r.Any:
		return true
	case r.Host == "" || r.Prefix.IsValid():
		return false
	case r.Suffix:
		// The dot is what keeps evilexample.org from being in example.org.
		return strings.HasSuffix(name, "."+r.Host) && len(name) > len(r.Host)+1
	}
	return name == r.Host
}

// matchesPort reports whether the rule is for a port of a protocol.
func (r Rule) matchesPort(p Proto, port uint16) bool {
	if p != TCP && p != UDP || r.Proto != AnyProto && r.Proto != p {
		return false
	}
	return r.First == 0 && r.Last == 0 || r.First <= port && port <= r.Last
}
