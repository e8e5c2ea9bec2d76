//go:build linux

package sys

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// An InetSocket is a TCP or UDP socket of this network namespace, as sock_diag(7) describes it.
type InetSocket struct {
	Ino     uint32 // the lower half of the socket's inode number
	Listens bool
	Cgroup  uint64 // the id of the cgroup in which it was made; 0: the kernel does not tell (before Linux 5.8)
}

// FindInetSocket asks the kernel for the socket that a packet from peer to local would reach on the loopback device.
// proto is IPPROTO_TCP or IPPROTO_UDP. The kernel looks up this one socket, as it does for a packet. EOPNOTSUPP: there
// is none, or the kernel cannot look for it.
func FindInetSocket(proto uint8, local, peer netip.AddrPort) (s InetSocket, err error) {
	const device, message = 1, 72 // the index of the loopback device; the size of struct inet_diag_msg
	if proto == unix.IPPROTO_UDP {
		local, peer = peer, local // as udp_dump_one in the kernel's net/ipv4/udp_diag.c takes them
	}
	q := make([]byte, 56) // struct inet_diag_req_v2
	q[0], q[1] = unix.AF_INET6, proto
	if local.Addr().Is4() {
		q[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // in all states
	binary.BigEndian.PutUint16(q[8:], local.Port())
	binary.BigEndian.PutUint16(q[10:], peer.Port())
	copy(q[12:28], local.Addr().AsSlice())
	copy(q[28:44], peer.Addr().AsSlice())
	binary.NativeEndian.PutUint32(q[44:], device)
	binary.NativeEndian.PutUint64(q[48:], ^uint64(0)) // any cookie
	err = SockDiag(q, false, message, func(b []byte) {
		const cgroupID = 21 // INET_DIAG_CGROUP_ID
		s.Listens, s.Ino = b[1] == stateListen, binary.NativeEndian.Uint32(b[68:])
		for kind, value := range attributes(b[message:]) {
			if kind == cgroupID && len(value) == 8 {
				s.Cgroup = binary.NativeEndian.Uint64(value)
			}
		}
	})
	return s, err
}
