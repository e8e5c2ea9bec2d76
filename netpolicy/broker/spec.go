package broker

import (
	"net"
	"net/netip"

	"github.com/nsrun/nsrun/netpolicy"
)

// Options say what a Broker does. The zero Options allow nothing. Decide, Report and HostLoopback
// are called from several goroutines, and must not block.
type Options struct {
	// Decide reports whether the sandbox may reach a port. It is not called for addresses inside
	// the sandbox. Nil: nothing may be reached.
	Decide func(p netpolicy.Proto, to netip.AddrPort) bool
	// Report is called for each decision that had an effect: for each connect, each UDP message
	// with an address of its own, and each UDP flow. Nil: it is not called.
	Report func(p netpolicy.Proto, to netip.AddrPort, allowed bool)
	// HostLoopback reports whether a loopback address is the host's, not the sandbox's, for TCP. Nil: none is.
	HostLoopback func(to netip.AddrPort) bool
	// LocalUDP are UDP ports of loopback addresses that are the host's, not the sandbox's, if
	// Decide allows them: at most MaxLocalUDP. Nil: none.
	LocalUDP []netip.AddrPort
	// Resolve answers DNS on 127.0.0.1:53 of the sandbox until the sockets are closed. It runs in a
	// goroutine of its own. Nil: nothing listens there.
	Resolve func(udp net.PacketConn, tcp net.Listener)
	// Publish are ports of the sandbox that can be reached from the host. Nil: none.
	Publish []Port
	// OwnNetworks says that the command may make network namespaces. Its sockets in them reach nothing outside.
	// False: it may not.
	OwnNetworks bool
	// NoUDP omits everything that UDP beyond the sandbox needs. Set it if no rule allows UDP.
	// False: UDP follows Decide.
	NoUDP bool
}

// A Port is a TCP port of the sandbox, on its loopback device, and the host's address on which to
// listen for it. If that has port 0, the kernel chooses one.
type Port struct {
	Inside uint16
	Host   netip.AddrPort
}

// Error says which step failed on what, and why.
type Error struct {
	Op, Path string
	Err      error
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.Path + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }
