//go:build linux

package broker

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/nsexec"
)

type coder struct{ seccomp.Filter }

// call adds the code for a system call; body ends with a verdict.
func (c *coder) call(nr uint32, body func()) { c.When(seccomp.Equal, nr, body) }

// traps is the filter that sends network calls to the broker, except those that it can decide by registers alone. For
// other calls, it asks the filter others. With observed, sockets that it refuses or does not make are reported, too.
func traps(others nsexec.Filter, observed bool) nsexec.Filter {
	var c coder
	c.Begin(seccomp.Arch, seccomp.HasX32)
	c.call(unix.SYS_CONNECT, c.Notify)
	c.call(unix.SYS_BIND, c.Notify)
	c.call(unix.SYS_LISTEN, c.Notify)
	// Data that goes along with the SYN is a connect of its own.
	noFastOpen := func(arg uint32) {
		c.Lower(arg)
		c.When(seccomp.AnyBit, unix.MSG_FASTOPEN, func() { c.Refuse(unix.EOPNOTSUPP) })
	}
	c.call(unix.SYS_SENDTO, func() {
		noFastOpen(3)
		c.Lower(4)
		c.When(seccomp.Equal, 0, func() {
			c.Upper(4)
			c.When(seccomp.Equal, 0, c.Allow)
		})
		c.Notify()
	})
	c.call(unix.SYS_SENDMSG, func() {
		c.Upper(2)
		c.When(seccomp.Equal, sandbox.HandOver, c.Allow)
		noFastOpen(2)
		c.Notify()
	})
	c.call(unix.SYS_SENDMMSG, func() {
		noFastOpen(3)
		c.Notify()
	})
	c.call(unix.SYS_SOCKET, func() { c.socket(observed) })
	c.call(unix.SYS_SETSOCKOPT, func() { c.option() })
	for _, nr := range [...]uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		c.call(nr, func() { c.Refuse(unix.ENOSYS) })
	}
	return append(nsexec.Filter(c.Filter), others...)
}

func allowAll() nsexec.Filter {
	var c coder
	c.Allow()
	return nsexec.Filter(c.Filter)
}

// socket adds which sockets are allowed: unix and netlink sockets, and for IP, UDP and ICMP echo
// sockets, and TCP sockets, which the broker makes. With observed it reports ICMP, raw and netlink sockets.
func (c *coder) socket(observed bool) {
	// local sockets reach nothing outside the sandbox.
	local, raw := c.Allow, func() { c.Refuse(unix.EPERM) }
	if observed {
		local, raw = c.Notify, c.Notify
	}
	c.Lower(0)
	c.When(seccomp.Equal, unix.AF_UNIX, c.Allow)
	c.When(seccomp.Equal, unix.AF_NETLINK, local)
	c.When(seccomp.Equal, unix.AF_PACKET, func() { c.Refuse(unix.EPERM) })
	c.Add(seccomp.Equal, 2, 0, unix.AF_INET)
	c.Add(seccomp.Equal, 1, 0, unix.AF_INET6)
	c.Refuse(unix.EAFNOSUPPORT)
	protocols := func(verdict func(), known ...uint32) {
		c.Lower(2)
		for _, protocol := range known {
			c.When(seccomp.Equal, protocol, verdict)
		}
		c.Refuse(unix.EPROTONOSUPPORT)
	}
	c.Lower(1)
	c.Add(seccomp.And, 0, 0, seccomp.SockTypeMask)
	c.When(seccomp.Equal, unix.SOCK_STREAM, func() { protocols(c.Notify, 0, unix.IPPROTO_TCP) })
	c.When(seccomp.Equal, unix.SOCK_DGRAM, func() {
		c.Lower(2)
		c.When(seccomp.Equal, unix.IPPROTO_ICMP, local)
		c.When(seccomp.Equal, unix.IPPROTO_ICMPV6, local)
		protocols(c.Allow, 0, unix.IPPROTO_UDP)
	})
	c.When(seccomp.Equal, unix.SOCK_RAW, raw)
	c.Refuse(unix.EPERM)
}

// refused are the options that no socket gets, with the error: those that have packets go another way than
// that to the address that was decided about (source routes, devices), those that make another kind of
// socket of it (TCP_ULP: SMC), and the one that makes a write a connect, which is as if it were set.
var refused = [...]struct {
	level uint32
	names []uint32
	err   unix.Errno
}{
	{unix.SOL_SOCKET, []uint32{unix.SO_BINDTODEVICE, unix.SO_BINDTOIFINDEX}, unix.EPERM},
	{unix.IPPROTO_IP, []uint32{unix.IP_OPTIONS, unix.IP_UNICAST_IF}, unix.EPERM},
	{unix.IPPROTO_IPV6, []uint32{unix.IPV6_RTHDR, unix.IPV6_2292PKTOPTIONS, unix.IPV6_UNICAST_IF}, unix.EPERM},
	{unix.IPPROTO_TCP, []uint32{unix.TCP_ULP}, unix.ENOENT}, // as where there is no such module
	{unix.IPPROTO_TCP, []uint32{unix.TCP_FASTOPEN_CONNECT}, 0},
}

// joins are the options by which a socket joins a multicast group, and which the kernel takes for TCP ones too: a
// host's would have the host tell its network so, in packets whose contents the caller chooses. The broker sets them.
var joins = [...]struct {
	level uint32
	names []uint32
}{
	{unix.IPPROTO_IP, []uint32{unix.MCAST_JOIN_GROUP, unix.MCAST_JOIN_SOURCE_GROUP, unix.IP_ADD_SOURCE_MEMBERSHIP}},
	{unix.IPPROTO_IPV6, []uint32{unix.MCAST_JOIN_GROUP, unix.MCAST_JOIN_SOURCE_GROUP}},
}

// option adds the options in refused and joins.
func (c *coder) option() {
	for _, j := range joins {
		c.Lower(1)
		c.When(seccomp.Equal, j.level, func() {
			c.Lower(2)
			for _, name := range j.names {
				c.When(seccomp.Equal, name, c.Notify)
			}
		})
	}
	for _, r := range refused {
		c.Lower(1)
		c.When(seccomp.Equal, r.level, func() {
			c.Lower(2)
			for _, name := range r.names {
				c.When(seccomp.Equal, name, func() { c.Refuse(r.err) })
			}
		})
	}
	c.Allow()
}

// seal is the filter that removes the one exception in traps.
func seal() nsexec.Filter {
	var c coder
	c.Nr()
	c.call(unix.SYS_SENDMSG, func() {
		c.Upper(2)
		c.When(seccomp.Equal, sandbox.HandOver, func() { c.Refuse(unix.EINVAL) })
		c.Allow()
	})
	c.Allow()
	return nsexec.Filter(c.Filter)
}
