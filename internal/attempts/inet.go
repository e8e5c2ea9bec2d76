//go:build linux

package attempts

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// inet handles a call with an internet address, and reports whether it was one.
func (o *Observer) inet(n *notify.Notification) bool {
	at, size := addressOf(n)
	to := o.address(n.PID, at, size)
	if !to.IsValid() {
		return false
	}
	a := Attempt{Kind: Inet, To: to, Datagram: datagram(n), Serves: n.NR == unix.SYS_BIND}
	if !o.tell(n, a) && !a.Datagram && !a.Serves {
		o.tried(n, to.String(), connects, true)
	}
	return true
}

// addressOf is where the address of a call is in its caller's memory, and its size.
func addressOf(n *notify.Notification) (at, size uint64) {
	if n.NR == unix.SYS_SENDTO {
		return n.Args[4], n.Args[5]
	}
	return n.Args[1], n.Args[2]
}

// abstract handles a connection to a socket whose name is not in the file system, and reports whether it was one.
func (o *Observer) abstract(n *notify.Notification) bool {
	const most = 110 // struct sockaddr_un
	at, size := addressOf(n)
	size = min(size, most)
	if n.NR == unix.SYS_BIND || size <= 3 || notify.ReadMemory(n.PID, uintptr(at), o.text[:size]) != 0 ||
		binary.LittleEndian.Uint16(o.text[:]) != unix.AF_UNIX || o.text[2] != 0 {
		return false
	}
	name := bytes.ReplaceAll(o.text[2:size], []byte{0}, []byte{'@'}) // as /proc/net/unix has it
	o.tell(n, Attempt{Kind: Unix, Path: string(name), Err: unix.ECONNREFUSED})
	return true
}

// takesAddress reports whether a call's path is in the address of a socket.
func takesAddress(n *notify.Notification) bool {
	return n.NR == unix.SYS_CONNECT || n.NR == unix.SYS_BIND || n.NR == unix.SYS_SENDTO
}

// address returns the internet address in a caller's memory. The zero AddrPort: there is none.
func (o *Observer) address(thread uint32, at, size uint64) (to netip.AddrPort) {
	const size4, size6 = 16, 28 // struct sockaddr_in, sockaddr_in6
	size = min(size, size6)
	if size < size4 || notify.ReadMemory(thread, uintptr(at), o.text[:size]) != 0 {
		return to
	}
	port := binary.BigEndian.Uint16(o.text[2:])
	switch family := binary.LittleEndian.Uint16(o.text[:]); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(o.text[4:8])), port)
	case family == unix.AF_INET6 && size == size6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(o.text[8:24])).Unmap(), port)
	}
	return to
}

// datagram reports whether the socket of a call is one for datagrams.
func datagram(n *notify.Notification) bool {
	process, err := unix.PidfdOpen(notify.Last(file(n.PID, "status"), "Tgid:"), 0)
	if err != nil {
		return false
	}
	defer unix.Close(process)
	socket, err := unix.PidfdGetfd(process, int(int32(n.Args[0])), 0)
	if err != nil {
		return false
	}
	defer unix.Close(socket)
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind != unix.SOCK_STREAM
}
