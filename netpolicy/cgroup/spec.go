package cgroup

import (
	"net/netip"
	"time"

	"github.com/nsrun/nsrun/netpolicy"
)

// A Hook is what a decision was about.
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

// A Decision was made by the kernel. The first of a kind is told at once, then, once a second at
// most, how often it was made since.
type Decision struct {
	Time    time.Time // when it was told
	Proto   netpolicy.Proto
	Dst     netip.AddrPort // for PacketIn the source, for Join the group; none for Create
	Hook    Hook
	Allowed bool
	Count   uint64
	PID     int // of the process, as the host numbers it; 0 for packets
}

// Options of an Enforcer. The zero Options are those of a sandbox that reaches what the table
// allows, and nothing else.
type Options struct {
	// Resolver is where the sandbox may ask for names, besides what the table says. Zero: nowhere.
	Resolver netip.AddrPort
	// Publish are TCP ports on which servers inside can be reached from this host. Nil: none.
	Publish []uint16
	// AllowAll allows everything that programs ask for, to learn what they need. Ports of servers
	// are as without it.
	AllowAll bool
	// Decided is called with each decision, one after the other. Nil: nobody is told.
	Decided func(Decision)
}
