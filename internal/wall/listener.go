//go:build linux

package wall

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// listenerAt returns the inode of the TCP socket that a connection to a loopback address would reach. It is 0 if none
// listens there, or if the kernel cannot tell. The kernel looks up this one socket, as it does for a connection.
//
// The list of all sockets (/proc/net/tcp) can lack some: the kernel makes it in parts, and goes on where it was by
// counting. A command can close sockets of its own between two parts, so that somebody else's is not listed.
func listenerAt(at netip.AddrPort) (ino uint32) {
	const device, answer = 1, 72 // the index of the loopback device; the size of struct inet_diag_msg
	q := make([]byte, 56)        // struct inet_diag_req_v2
	addr := at.Addr().Unmap()
	q[0], q[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if addr.Is4() {
		q[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // in all states
	binary.BigEndian.PutUint16(q[8:], at.Port())
	copy(q[12:28], addr.AsSlice())
	copy(q[28:44], addr.AsSlice()) // whoever connects has an address of the device, too; the port does not matter
	binary.NativeEndian.PutUint32(q[44:], device)
	binary.NativeEndian.PutUint64(q[48:], ^uint64(0)) // any cookie
	err := sys.SockDiag(q, false, answer, func(b []byte) {
		if b[1] == sys.StateListen {
			ino = binary.NativeEndian.Uint32(b[68:])
		}
	})
	if err != nil {
		return 0
	}
	return ino
}
