//go:build linux

package broker

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// maxSockaddr is the size of struct sockaddr_storage.
const maxSockaddr = 128

// sockaddr is our copy of an address that a caller wrote.
type sockaddr struct {
	b [maxSockaddr]byte
	n int
}

// family is the address family, or AF_UNSPEC if the address is too short for one.
func (a *sockaddr) family() uint16 {
	if a.n < 2 {
		return unix.AF_UNSPEC
	}
	return binary.NativeEndian.Uint16(a.b[:])
}

// addrPort is the address and port; an IPv4-mapped address becomes an IPv4 one. Zero: it is not a whole IP address.
func (a *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(a.b[2:])
	switch {
	case a.family() == unix.AF_INET && a.n >= unix.SizeofSockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.b[4:8])), port)
	case a.family() == unix.AF_INET6 && a.n >= sizeofSockaddrIn6RFC2133:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(a.b[8:24])).Unmap(), port)
	}
	return netip.AddrPort{}
}

// sizeofSockaddrIn6RFC2133 is the size without the scope, which the kernel does not require.
const sizeofSockaddrIn6RFC2133 = 24

// connect is connect(2) for a socket that does not wait. Another thread of the caller may make the kernel
// lock the socket, or make it wait, so this is a call that the Go scheduler knows of.
func (a *sockaddr) connect(fd int) syscall.Errno {
	_, _, e := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&a.b)), uintptr(a.n))
	return e
}

// bind is bind(2), which also takes the socket's lock.
func (a *sockaddr) bind(fd int) syscall.Errno {
	_, _, e := syscall.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&a.b)), uintptr(a.n))
	return e
}

// read copies an address from a caller's memory, all of it or nothing.
func (a *sockaddr) read(pid uint32, at, n uint64) syscall.Errno {
	if a.n = int(int32(n)); a.n < 0 || a.n > maxSockaddr {
		return syscall.EINVAL
	}
	return notify.ReadMemory(pid, uintptr(at), a.b[:a.n])
}
