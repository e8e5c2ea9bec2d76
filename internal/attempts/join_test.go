//go:build linux

package attempts

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestJoined: the group and the device are read from each kind of value, and nothing from one that is too short.
func TestJoined(t *testing.T) {
	group4, group6 := netip.MustParseAddr("224.1.2.3"), netip.MustParseAddr("ff02::fb")
	pad := func(b []byte, n int) []byte { return append(b, make([]byte, n-len(b))...) }
	storage4 := pad([]byte{2, 0, 0, 0, 224, 1, 2, 3}, 128)
	storage6 := pad(append([]byte{10, 0, 0, 0, 0, 0, 0, 0}, group6.AsSlice()...), 128)
	three := []byte{3, 0, 0, 0}
	for _, c := range []struct {
		name          string
		level, option uint32
		value         []byte
		group         netip.Addr
		device        Device
		least         int // a shorter value is none
	}{
		{"ip_mreq", unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, []byte{224, 1, 2, 3, 0, 0, 0, 0}, group4, Device{}, 8},
		{"ip_mreq on a device", unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, []byte{224, 1, 2, 3, 10, 0, 0, 1}, group4, Device{Address: netip.MustParseAddr("10.0.0.1")}, 8},
		{"ip_mreqn", unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, append([]byte{224, 1, 2, 3, 0, 0, 0, 0}, three...), group4, Device{Index: 3}, 8},
		{"ipv6_mreq", unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, append(group6.AsSlice(), three...), group6, Device{Index: 3}, 20},
		{"group_req", unix.IPPROTO_IP, unix.MCAST_JOIN_GROUP, append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, storage4...), group4, Device{Index: 3}, 16},
		{"group_req of IPv6", unix.IPPROTO_IPV6, unix.MCAST_JOIN_GROUP, append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, storage6...), group6, Device{Index: 3}, 32},
	} {
		a, ok := joined(c.level, c.option, c.value)
		if !ok || a.To.Addr() != c.group || a.Device != c.device || !a.Joins || a.Kind != Inet {
			t.Errorf("%s: %+v, %v", c.name, a, ok)
		}
		if _, ok := joined(c.level, c.option, c.value[:c.least-1]); ok {
			t.Errorf("%s: a value that is too short", c.name)
		}
	}
	if _, ok := joined(unix.IPPROTO_IP, unix.IPV6_JOIN_GROUP, make([]byte, 100)); ok {
		t.Error("an option of another level")
	}
}
