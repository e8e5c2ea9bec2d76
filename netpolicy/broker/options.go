//go:build linux

package broker

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// option is a socket option that is a number.
func option(fd sys.FD, level, name int) (v int, e syscall.Errno) {
	var value int32
	n := uint32(4)
	// Some are read under the socket's lock, which a thread of the caller can hold, so the Go scheduler has to
	// know.
	_, _, e = syscall.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&n)), 0)
	return int(value), e
}

func setOption(fd sys.FD, level, name, v int) {
	value := int32(v)
	_, _, _ = syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&value)), 4, 0)
}

// fcntl is fcntl(2).
func fcntl(fd sys.FD, command, arg int) (int, syscall.Errno) {
	r, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), uintptr(command), uintptr(arg))
	return int(r), e
}

// A setting is a socket option that programs set before they connect or listen.
type setting struct{ level, name int }

// settings are those that are numbers: first those for IPv4, then those for IPv6.
var settings = [...]setting{
	{unix.SOL_SOCKET, unix.SO_REUSEADDR},
	{unix.SOL_SOCKET, unix.SO_REUSEPORT},
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
	{unix.SOL_SOCKET, unix.SO_OOBINLINE},
	{unix.SOL_SOCKET, unix.SO_RCVLOWAT},
	{unix.SOL_SOCKET, unix.SO_PRIORITY},
	{unix.SOL_SOCKET, unix.SO_DONTROUTE},
	{unix.SOL_SOCKET, unix.SO_ZEROCOPY},
	{unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE},
	{unix.SOL_SOCKET, unix.SO_RXQ_OVFL},
	{unix.IPPROTO_TCP, unix.TCP_NODELAY},
	{unix.IPPROTO_TCP, unix.TCP_CORK},
	{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
	{unix.IPPROTO_TCP, unix.TCP_SYNCNT},
	{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT},
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
	{unix.IPPROTO_TCP, unix.TCP_MAXSEG},
	{unix.IPPROTO_TCP, unix.TCP_LINGER2},
	{unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP},
	{unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT},
	{unix.IPPROTO_TCP, unix.TCP_FASTOPEN},
	{unix.IPPROTO_TCP, unix.TCP_SAVE_SYN},
	{unix.IPPROTO_TCP, unix.TCP_INQ},
	{unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS},
	{unix.IPPROTO_IP, unix.IP_TOS},
	{unix.IPPROTO_IP, unix.IP_TTL},
	{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER},
	{unix.IPPROTO_IP, unix.IP_RECVERR},
	{unix.IPPROTO_IP, unix.IP_RECVTOS},
	{unix.IPPROTO_IP, unix.IP_PKTINFO},
	{unix.IPPROTO_IP, unix.IP_MINTTL},
	{unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE},
	{unix.IPPROTO_IP, unix.IP_FREEBIND},
	{unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT},
	{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	{unix.IPPROTO_IPV6, unix.IPV6_TCLASS},
	{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS},
	{unix.IPPROTO_IPV6, unix.IPV6_FREEBIND},
}

// settings4 is the number of settings for IPv4.
const settings4 = 36

// usual are the values of new sockets.
type usual struct {
	v     [len(settings)]int
	known bool

	congestion [16]byte // a name, see TCP_CONGESTION
}

func settingsOf(domain int) []setting {
	if domain == unix.AF_INET6 {
		return settings[:]
	}
	return settings[:settings4]
}

// usual are those of sockets like the caller's old one. The host's and the sandbox's network have defaults of their
// own (net.ipv4.tcp_keepalive_time and the like).
func (c *call) usual() (*usual, syscall.Errno) {
	i, inward := 0, c.b.sandboxed(c.old)
	if c.domain == unix.AF_INET6 {
		i = 1
	}
	if inward {
		i += 2
	}
	u := &c.s.usual[i]
	if u.known {
		return u, 0
	}
	plain, e := c.plain(inward)
	if e != 0 {
		return nil, e
	}
	defer plain.Close()
	for i, o := range settingsOf(c.domain) {
		u.v[i], _ = option(plain, o.level, o.name)
	}
	u.congestion, _, _ = bytesOption(plain, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	u.known = true
	return u, 0
}

// copyOptions gives the fresh socket what was set on the one whose place it takes. What the host does not let
// ordinary users set is left out, as are what it was bound to, and options of other protocols.
func (c *call) copyOptions() syscall.Errno {
	u, e := c.usual()
	if e != 0 {
		return e
	}
	old, fresh := c.old, c.fresh
	for i, o := range settingsOf(c.domain) {
		if v, e := option(old, o.level, o.name); e == 0 && v != u.v[i] {
			setOption(fresh, o.level, o.name, v)
		}
	}
	// The kernel changes these sizes unless they were set; since Linux 5.15, it says whether they were.
	if set, e := option(old, unix.SOL_SOCKET, unix.SO_BUF_LOCK); e == 0 {
		for _, o := range [...]struct{ bit, name int }{{sndbufLock, unix.SO_SNDBUF}, {rcvbufLock, unix.SO_RCVBUF}} {
			if v, e := option(old, unix.SOL_SOCKET, o.name); e == 0 && set&o.bit != 0 {
				setOption(fresh, unix.SOL_SOCKET, o.name, v/2) // the kernel doubles what it is told
			}
		}
	}
	for _, name := range [...]int{unix.SO_LINGER, unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		copyBytes(old, fresh, unix.SOL_SOCKET, name, [16]byte{})
	}
	copyBytes(old, fresh, unix.IPPROTO_TCP, unix.TCP_CONGESTION, u.congestion)
	return 0
}

// SOCK_SNDBUF_LOCK and SOCK_RCVBUF_LOCK, linux/socket.h.
const (
	sndbufLock = 1
	rcvbufLock = 2
)

// copyBytes copies an option that is not a number, if it was set.
func copyBytes(old, fresh sys.FD, level, name int, usual [16]byte) {
	if v, n, e := bytesOption(old, level, name); e == 0 && v != usual {
		_, _, _ = syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fresh), uintptr(level), uintptr(name),
			uintptr(unsafe.Pointer(&v)), uintptr(n), 0)
	}
}

// bytesOption is a socket option that is not a number.
func bytesOption(fd sys.FD, level, name int) (v [16]byte, n uint32, e syscall.Errno) {
	n = uint32(len(v))
	_, _, e = syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	return v, n, e
}
