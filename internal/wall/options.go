//go:build linux

package wall

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// A command without a network connects to its own servers on the loopback device only, by TCP sockets that are the host's. So no
// option may have packets go another way than to the address that was looked at (source routes, devices), or later than that (a
// write that connects), have the host tell its network of a multicast group, or share the port of a server of somebody else.
// What is not known not to is refused.

// optionLevel says which options of a level there are.
type optionLevel struct {
	level uint32
	// allowed are all of its options that there are. Nil: all but those of refused.
	allowed []uint32
	refused []optionError
}

type optionError struct {
	name uint32
	err  unix.Errno // 0: it is as if it were set
}

var optionLevels = [...]optionLevel{
	{level: unix.SOL_SOCKET, refused: []optionError{
		{unix.SO_BINDTODEVICE, unix.EPERM}, {unix.SO_BINDTOIFINDEX, unix.EPERM}, {unix.SO_REUSEPORT, unix.ENOPROTOOPT},
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

// options adds what optionLevels says of setsockopt(2).
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
