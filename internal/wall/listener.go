//go:build linux

package wall

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// listenerAt returns the inode of the TCP socket that a connection to a loopback address would reach. It is 0 if none
// listens there, or if the kernel cannot tell.
//
// The list of all sockets (/proc/net/tcp) can lack some: the kernel makes it in parts, and goes on where it was by
// counting. A command can close sockets of its own between two parts, so that somebody else's is not listed.
func listenerAt(at netip.AddrPort) (ino uint32) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	anyone := netip.AddrPortFrom(at.Addr(), 0) // whoever connects has an address of the device, too; the port does not matter
	if s, err := sys.FindInetSocket(unix.IPPROTO_TCP, at, anyone); err == nil && s.Listens {
		return s.Ino
	}
	return 0
}
