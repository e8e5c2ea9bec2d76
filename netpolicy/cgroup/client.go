//go:build linux

package cgroup

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/netpolicy"
)

// Serves is for [netpolicy.Resolver]: it reports whether the sandbox made the socket of a client, which talks to a
// server of this process on the loopback device. If the kernel cannot tell, it returns true: it lacks CONFIG_INET_DIAG
// or, for UDP, CONFIG_INET_UDP_DIAG, or is older than Linux 5.8.
func (e *Enforcer) Serves(p netpolicy.Proto, client, server netip.AddrPort) bool {
	silent := &e.programs.silent[0]
	if p == netpolicy.UDP {
		silent = &e.programs.silent[1]
	}
	if silent.Load() {
		return true
	}
	s, err := sys.FindInetSocket(uint8(p), client, server)
	if err == nil && s.Cgroup != 0 {
		return s.Cgroup == e.id
	}
	s, err = sys.FindInetSocket(uint8(p), server, netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	switch {
	case err == nil && s.Cgroup != 0:
		return false // the client has closed its socket
	case err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOBUFS || err == unix.ENOMEM:
		return false // it can tell at another time
	}
	// Each request that the kernel has no module for takes a look for one: it is asked only once then.
	silent.Store(true)
	return true
}
