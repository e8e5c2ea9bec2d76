//go:build linux

package attempts

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
)

// A Device says on which network device a process joins a multicast group. The zero Device leaves that to the kernel.
type Device struct {
	Address netip.Addr // of the device
	Index   int        // its number
}

// joinLevels are the levels of options for sockets with which a process joins a group, and joinOptions the options.
var (
	joinLevels  = [...]uint32{unix.IPPROTO_IP, unix.IPPROTO_IPV6}
	joinOptions = [...]uint32{unix.IP_ADD_MEMBERSHIP, unix.IPV6_JOIN_GROUP, unix.MCAST_JOIN_GROUP}
)

// reportJoins reports calls that join multicast groups.
func reportJoins(f *seccomp.Filter) {
	f.When(seccomp.Equal, unix.SYS_SETSOCKOPT, func() {
		f.Lower(1)
		for _, level := range joinLevels {
			f.When(seccomp.Equal, level, func() {
				f.Lower(2)
				for _, option := range joinOptions {
					f.When(seccomp.Equal, option, f.Notify)
				}
				f.Lower(1)
			})
		}
		f.Nr()
	})
}

// joins handles a call that joins a multicast group.
func (o *Observer) joins(n *notify.Notification) {
	const most = 136 // struct group_req
	size := min(n.Args[4], most)
	if notify.ReadMemory(n.PID, uintptr(n.Args[3]), o.text[:size]) != 0 {
		return
	}
	a, ok := joined(uint32(n.Args[1]), uint32(n.Args[2]), o.text[:size])
	if ok && a.To.Addr().IsMulticast() {
		o.tell(n, a)
	}
}

// joined reads the value of an option: struct ip_mreq, ip_mreqn, ipv6_mreq or group_req.
func joined(level, option uint32, value []byte) (a Attempt, ok bool) {
	a = Attempt{Kind: Inet, Err: unix.ENODEV, Datagram: true, Joins: true}
	index := func(at int) int { return int(int32(binary.NativeEndian.Uint32(value[at:]))) }
	var group netip.Addr
	switch v4 := level == unix.IPPROTO_IP; {
	case v4 && option == unix.IP_ADD_MEMBERSHIP && len(value) >= 8:
		group = netip.AddrFrom4([4]byte(value))
		if device := netip.AddrFrom4([4]byte(value[4:])); !device.IsUnspecified() {
			a.Device.Address = device
		}
		if len(value) >= 12 {
			a.Device.Index = index(8)
		}
	case !v4 && option == unix.IPV6_JOIN_GROUP && len(value) >= 20:
		group, a.Device.Index = netip.AddrFrom16([16]byte(value)), index(16)
	case option == unix.MCAST_JOIN_GROUP && len(value) >= 16 && v4:
		group, a.Device.Index = netip.AddrFrom4([4]byte(value[12:])), index(0)
	case option == unix.MCAST_JOIN_GROUP && len(value) >= 32:
		group, a.Device.Index = netip.AddrFrom16([16]byte(value[16:])), index(0)
	default:
		return a, false
	}
	a.To = netip.AddrPortFrom(group, 0)
	return a, true
}
