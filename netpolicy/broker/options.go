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
	_, _, e = syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&n)), 0)
	return int(value), e
}

func setOption(fd sys.FD, level, name, v int) {
	value := int32(v)
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&value)), 4, 0)
}

// fcntl is fcntl(2).
func fcntl(fd sys.FD, command, arg int) (int, syscall.Errno) {
	r, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), uintptr(command), uintptr(arg))
	return int(r), e
}

// A setting is a socket option that programs set before they connect.
type setting struct{ level, name int }

// settings are the numbers among them: those for IPv4 first, then those for IPv6.
var settings = [...]setting{
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
	{unix.SOL_SOCKET, unix.SO_OOBINLINE},
	{unix.SOL_SOCKET, unix.SO_RCVLOWAT},
	{unix.SOL_SOCKET, unix.SO_PRIORITY},
	{unix.SOL_SOCKET, unix.SO_SNDBUF},
	{unix.SOL_SOCKET, unix.SO_RCVBUF},
	{unix.IPPROTO_TCP, unix.TCP_NODELAY},
	{unix.IPPROTO_TCP, unix.TCP_CORK},
	{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
	{unix.IPPROTO_TCP, unix.TCP_SYNCNT},
	{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT},
	{unix.IPPROTO_IP, unix.IP_TOS},
	{unix.IPPROTO_IP, unix.IP_TTL},
	{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	{unix.IPPROTO_IPV6, unix.IPV6_TCLASS},
	{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS},
}

// settings4 is how many of settings there are for IPv4.
const settings4 = 13

// keepalive are those that mean something only with SO_KEEPALIVE.
var keepalive = [...]setting{
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
}

// usual are the values that a fresh socket has for settings.
type usual struct {
	v     [len(settings)]int
	known bool

	congestion [16]byte // a name, see TCP_CONGESTION
}

// copyOptions gives a fresh socket what was set on the one whose place it takes. What
// the host does not let ordinary users set is left out, as are what it was bound to (an
// address, port or device of the sandbox), and options of other protocols.
func (b *Broker) copyOptions(old, fresh sys.FD, domain int) {
	n, usual := settings4, &b.usual4
	if domain == unix.AF_INET6 {
		n, usual = len(settings), &b.usual6
	}
	// Only the first time, before anything is set.
	if !usual.known {
		for i, o := range settings[:n] {
			usual.v[i], _ = option(fresh, o.level, o.name)
		}
		size := uint32(len(usual.congestion))
		_, _, _ = syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fresh), unix.IPPROTO_TCP, unix.TCP_CONGESTION,
			uintptr(unsafe.Pointer(&usual.congestion)), uintptr(unsafe.Pointer(&size)), 0)
		usual.known = true
	}
	for i, o := range settings[:n] {
		v, e := option(old, o.level, o.name)
		if e != 0 || v == usual.v[i] {
			continue
		}
		if o.level == unix.SOL_SOCKET && (o.name == unix.SO_SNDBUF || o.name == unix.SO_RCVBUF) {
			v /= 2 // the kernel doubles what it is told
		}
		setOption(fresh, o.level, o.name, v)
		if o.level == unix.SOL_SOCKET && o.name == unix.SO_KEEPALIVE {
			copyNumbers(old, fresh, keepalive[:])
		}
	}
	for _, name := range [...]int{unix.SO_LINGER, unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		copyBytes(old, fresh, unix.SOL_SOCKET, name, [16]byte{})
	}
	copyBytes(old, fresh, unix.IPPROTO_TCP, unix.TCP_CONGESTION, usual.congestion)
}

// copyBytes copies an option that is no number, if it is not as usual.
func copyBytes(old, fresh sys.FD, level, name int, usual [16]byte) {
	var v [16]byte
	n := uint32(len(v))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(old), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	if e == 0 && v != usual {
		_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fresh), uintptr(level), uintptr(name),
			uintptr(unsafe.Pointer(&v)), uintptr(n), 0)
	}
}

// copyNumbers copies numbers.
func copyNumbers(old, fresh sys.FD, settings []setting) {
	for _, o := range settings {
		if v, e := option(old, o.level, o.name); e == 0 {
			setOption(fresh, o.level, o.name, v)
		}
	}
}
