package cgroup

import (
	"net/netip"
	"time"

	"github.com/nsrun/nsrun/netpolicy"
)

// A Hook says what a decision was about.
type Hook uint8

// As in bpf/enforce.c.
const (
	Connect    Hook = iota // connect(2)
	Send                   // sendto(2) and the like
	Bind                   // bind(2), to a port that is not published
	Create                 // socket(2), for another protocol
	PacketOut              // a packet on its way out
	PacketIn               // a packet from where none may come
	Join                   // setsockopt(2), to join a multicast or anycast group
	knownHooks             // how many there are
)

func (h Hook) String() string {
	if h < knownHooks {
		return [...]string{"connect", "send", "bind", "socket", "packet out", "packet in", "join"}[h]
	}
	return "unknown"
}

// A Decision is a decision that the kernel made. The first of a kind is reported at once; after
// that, at most once a second, a Decision reports how often it was made since.
type Decision struct {
	Time    time.Time // when it was told
	Proto   netpolicy.Proto
	Dst     netip.AddrPort // for PacketIn the source, for Join the group; none for Create
	Hook    Hook
	Allowed bool
	Count   uint64
	PID     int // of the process, as the host numbers it; 0 for packets
}

// Options of an Enforcer. With the zero Options a sandbox reaches what the table allows, and nothing else.
type Options struct {
	// Resolver is the DNS server that the sandbox may query, in addition to what the table allows. Zero: none.
	Resolver netip.AddrPort
	// Publish are TCP ports on which this host can reach servers inside. Nil: none.
	Publish []uint16
	// AllowAll allows everything that programs try to reach, to learn what they need. Servers still
	// need Publish. False: the table decides.
	AllowAll bool
	// Decided is called with each decision, one call at a time. Nil: it is not called.
	Decided func(Decision)
}
