//go:build linux

package wall

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// A command without a network connects only to its own servers on the loopback device, by TCP sockets of the host. So
// no socket option may send packets elsewhere than to the address that the Deputy checked (source routes, devices),
// connect after that check (a write that connects), make the host announce a multicast group, or share the port of
// somebody else's server. None may make close(2) wait: this process closes what a command sends over a unix socket
// (SCM_RIGHTS), and copies of its sockets, so it would wait, too. Options that may do any of this are refused.

// optionLevel says which options of a level can be set.
type optionLevel struct {
	level uint32
	// allowed are the only options that can be set. Nil: all but those of refused.
	allowed []uint32
	refused []optionError
}

type optionError struct {
	name uint32
	err  unix.Errno // 0: the call reports success and sets nothing
}

var optionLevels = [...]optionLevel{
	{level: unix.SOL_SOCKET, refused: []optionError{
		{unix.SO_BINDTODEVICE, unix.EPERM}, {unix.SO_BINDTOIFINDEX, unix.EPERM}, {unix.SO_REUSEPORT, unix.ENOPROTOOPT},
		{unix.SO_LINGER, 0},
	}},
	{level: unix.IPPROTO_IP, allowed: []uint32{
		unix.IP_TOS, unix.IP_TTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_PKTINFO, unix.IP_RECVTOS, unix.IP_RECVTTL,
		unix.IP_BIND_ADDRESS_NO_PORT, unix.IP_LOCAL_PORT_RANGE,
	}},
	{level: unix.IPPROTO_IPV6, allowed: []uint32{
		unix.IPV6_V6ONLY, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR, unix.IPV6_RECVPKTINFO,
		unix.IPV6_RECVTCLASS, unix.IPV6_RECVHOPLIMIT,
	}},
	{level: unix.IPPROTO_TCP, refused: []optionError{{unix.TCP_ULP, unix.ENOENT}, {unix.TCP_FASTOPEN_CONNECT, 0}}},
}

// options adds the checks of setsockopt(2) that optionLevels describes.
func (f *builder) options() {
	for _, l := range optionLevels {
		f.Lower(1)
		f.When(seccomp.Equal, l.level, func() {
			f.Lower(2)
			for _, name := range l.allowed {
				f.When(seccomp.Equal, name, f.Allow)
			}
			for _, o := range l.refused {
				f.When(seccomp.Equal, o.name, func() { f.Refuse(o.err) })
			}
			if l.allowed != nil {
				f.Refuse(unix.EPERM)
			} else {
				f.Allow()
			}
		})
	}
	f.Refuse(unix.ENOPROTOOPT)
}
