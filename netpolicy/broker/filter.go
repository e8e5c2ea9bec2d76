//go:build linux

package broker

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

// Numbers from linux/seccomp.h, linux/bpf_common.h.
const (
	retAllow  = 0x7fff0000
	retNotify = 0x7fc00000
	retErrno  = 0x00050000

	ldAbs = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jeq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jge   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jset  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ret   = unix.BPF_RET | unix.BPF_K

	dataNr   = 0
	dataArch = 4
	dataArgs = 16 // the lower halves are first, all our architectures being little-endian

	sockTypeMask = 0xf
)

// A coder writes a filter.
type coder struct{ f nsexec.Filter }

func (c *coder) add(code uint16, jt, jf uint8, k uint32) {
	c.f = append(c.f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (c *coder) lower(arg uint32)   { c.add(ldAbs, 0, 0, dataArgs+8*arg) }
func (c *coder) upper(arg uint32)   { c.add(ldAbs, 0, 0, dataArgs+8*arg+4) }
func (c *coder) allow()             { c.add(ret, 0, 0, retAllow) }
func (c *coder) notify()            { c.add(ret, 0, 0, retNotify) }
func (c *coder) errno(e unix.Errno) { c.add(ret, 0, 0, retErrno|uint32(e)) }

// when adds what body adds for a value for which the jump is taken.
func (c *coder) when(jump uint16, k uint32, body func()) {
	at := len(c.f)
	c.add(jump, 0, 0, k)
	body()
	over := len(c.f) - at - 1
	if over > math.MaxUint8 {
		panic("BUG: a jump over more than a filter can have")
	}
	c.f[at].Jf = uint8(over)
}

// begin adds what refuses system calls of other architectures, and loads the number.
func (c *coder) begin() {
	c.add(ldAbs, 0, 0, dataArch)
	c.add(jeq, 1, 0, auditArch)
	c.errno(unix.ENOSYS)
	c.add(ldAbs, 0, 0, dataNr)
	if x32 {
		c.when(jge, 0x40000000, func() { c.errno(unix.ENOSYS) })
	}
}

// call adds what is done for a system call; body ends with a verdict.
func (c *coder) call(nr uint32, body func()) { c.when(jeq, nr, body) }

// traps is the filter that has the network's system calls decided by the broker, and
// decides by itself what can be seen in registers; others are asked of another filter.
func traps(others nsexec.Filter) nsexec.Filter {
	var c coder
	c.begin()
	c.call(unix.SYS_CONNECT, c.notify)
	c.call(unix.SYS_BIND, c.notify)
	c.call(unix.SYS_LISTEN, c.notify)
	// Data that goes along with the SYN is a connect of its own.
	noFastOpen := func(arg uint32) {
		c.lower(arg)
		c.when(jset, unix.MSG_FASTOPEN, func() { c.errno(unix.EOPNOTSUPP) })
	}
	c.call(unix.SYS_SENDTO, func() {
		noFastOpen(3)
		c.lower(4)
		c.when(jeq, 0, func() {
			c.upper(4)
			c.when(jeq, 0, c.allow)
		})
		c.notify()
	})
	c.call(unix.SYS_SENDMSG, func() {
		c.upper(2)
		c.when(jeq, sandbox.HandOver, c.allow)
		noFastOpen(2)
		c.notify()
	})
	c.call(unix.SYS_SENDMMSG, func() {
		noFastOpen(3)
		c.notify()
	})
	c.call(unix.SYS_SOCKET, func() { c.socket() })
	c.call(unix.SYS_SETSOCKOPT, func() { c.option() })
	for _, nr := range [...]uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		c.call(nr, func() { c.errno(unix.ENOSYS) })
	}
	return append(c.f, others...)
}

// allowAll is a filter that lets everything pass.
func allowAll() nsexec.Filter {
	var c coder
	c.allow()
	return c.f
}

// socket adds which sockets there are: of the unix and netlink families, and of the IP ones UDP and ICMP
// echo ones, and TCP ones, which the broker makes.
func (c *coder) socket() {
	c.lower(0)
	c.when(jeq, unix.AF_UNIX, c.allow)
	c.when(jeq, unix.AF_NETLINK, c.allow)
	c.when(jeq, unix.AF_PACKET, func() { c.errno(unix.EPERM) })
	c.add(jeq, 2, 0, unix.AF_INET)
	c.add(jeq, 1, 0, unix.AF_INET6)
	c.errno(unix.EAFNOSUPPORT)
	protocols := func(verdict func(), known ...uint32) {
		c.lower(2)
		for _, protocol := range known {
			c.when(jeq, protocol, verdict)
		}
		c.errno(unix.EPROTONOSUPPORT)
	}
	c.lower(1)
	c.add(and, 0, 0, sockTypeMask)
	c.when(jeq, unix.SOCK_STREAM, func() { protocols(c.notify, 0, unix.IPPROTO_TCP) })
	c.when(jeq, unix.SOCK_DGRAM, func() {
		protocols(c.allow, 0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6)
	})
	c.errno(unix.EPERM)
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

// joins are the options by which a socket joins a multicast group, and which the kernel takes for TCP ones too: a host's
// would have the host tell its network so, in packets whose contents the caller chooses. The broker sets them.
var joins = [...]struct {
	level uint32
	names []uint32
}{
	{unix.IPPROTO_IP, []uint32{unix.MCAST_JOIN_GROUP, unix.MCAST_JOIN_SOURCE_GROUP, unix.IP_ADD_SOURCE_MEMBERSHIP}},
	{unix.IPPROTO_IPV6, []uint32{unix.MCAST_JOIN_GROUP, unix.MCAST_JOIN_SOURCE_GROUP}},
}

// option adds what refused and joins say.
func (c *coder) option() {
	for _, j := range joins {
		c.lower(1)
		c.when(jeq, j.level, func() {
			c.lower(2)
			for _, name := range j.names {
				c.when(jeq, name, c.notify)
			}
		})
	}
	for _, r := range refused {
		c.lower(1)
		c.when(jeq, r.level, func() {
			c.lower(2)
			for _, name := range r.names {
				c.when(jeq, name, func() { c.errno(r.err) })
			}
		})
	}
	c.allow()
}

// seal is the filter that ends the one exception of traps.
func seal() nsexec.Filter {
	var c coder
	c.add(ldAbs, 0, 0, dataNr)
	c.call(unix.SYS_SENDMSG, func() {
		c.upper(2)
		c.when(jeq, sandbox.HandOver, func() { c.errno(unix.EINVAL) })
		c.allow()
	})
	c.allow()
	return c.f
}
