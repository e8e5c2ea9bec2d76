package broker

import (
	"net"
	"net/netip"

	"github.com/nsrun/nsrun/netpolicy"
)

// Options say what a Broker does. All functions are called from several goroutines and
// must not wait.
type Options struct {
	// Decide says whether a port may be reached. It gets no address inside of the
	// sandbox. Nil: nothing may be reached.
	Decide func(p netpolicy.Proto, to netip.AddrPort) bool
	// Report is told of each decision that something depended on: for each connect, each UDP message
	// with an address of its own, and each UDP flow. Nil: nobody is told.
	Report func(p netpolicy.Proto, to netip.AddrPort, allowed bool)
	// HostLoopback says that a loopback address is the host's, not the sandbox's, for TCP.
	// Nil: none is.
	HostLoopback func(to netip.AddrPort) bool
	// LocalUDP are ports of loopback addresses that are the host's, not the sandbox's, for
	// UDP, where Decide allows them: at most MaxLocalUDP. Nil: none is.
	LocalUDP []netip.AddrPort
	// Resolve answers DNS on 127.0.0.1:53 of the sandbox until the sockets are closed, and is
	// called on a goroutine of its own. Nil: nobody listens there.
	Resolve func(udp net.PacketConn, tcp net.Listener)
	// Publish are ports of the sandbox that can be reached from the host. Nil: none.
	Publish []Port
	// NoUDP leaves out what UDP beyond the sandbox needs: where no rule allows any.
	NoUDP bool
}

// A Port is a TCP port of the sandbox, on its loopback device, and where to listen for it on
// the host.
type Port struct {
	Inside uint16
	Host   netip.AddrPort
}

// Error is what did not work, and on what.
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

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }
