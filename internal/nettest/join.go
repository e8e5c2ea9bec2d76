//go:build linux

package nettest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Attempts to join a group of the host's. The socket stays open, so that the group can be looked
// for from outside: in a network namespace of its own a sandbox may join what it likes.

// Options that package unix does not have.
const (
	ipMsfilter    = 41
	mcastMsfilter = 48
)

// groupOf is the group that an attempt is about, another one for each.
func groupOf(kind string) netip.Addr {
	sum := uint16(0)
	for _, c := range []byte(kind) {
		sum = sum*31 + uint16(c)
	}
	if strings.Contains(kind, "-ip6-") {
		group := netip.MustParseAddr("ff15::6e73:0").As16()
		if strings.HasSuffix(kind, "-anycast") {
			group = netip.MustParseAddr("2001:db8:acac::").As16()
		}
		binary.BigEndian.PutUint16(group[14:], sum)
		return netip.AddrFrom16(group)
	}
	return netip.AddrFrom4([4]byte{239, 66, byte(sum >> 8), byte(sum)})
}

// joined is out if this network namespace is a member of the group now, else a failure.
func joined(out Outcome, kind string) Outcome {
	if !out.OK {
		return out
	}
	group, text := groupOf(kind), ""
	if group.Is4() {
		// In the order of the machine.
		b := group.As4()
		text = fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:]))
	} else {
		text = hex.EncodeToString(group.AsSlice())
	}
	for _, name := range []string{"igmp", "igmp6", "anycast6"} {
		b, err := os.ReadFile("/proc/self/net/" + name)
		if err != nil {
			return Outcome{Err: err.Error()}
		}
		if strings.Contains(string(b), text) {
			return out
		}
	}
	return Outcome{Err: "it joined a group of its own network namespace"}
}

// join does what kind says: the socket, the level, the option.
func (k *kept) join(kind string) error {
	socket, rest, _ := strings.Cut(kind, "-")
	level, option, _ := strings.Cut(rest, "-")
	fd, err := open(socket)
	if err != nil {
		return err
	}
	k.groups = append(k.groups, fd)
	const lo = 1
	group, source := groupOf(kind), netip.MustParseAddr("192.0.2.7")
	proto, number := unix.IPPROTO_IP, 0
	if level == "ip6" {
		proto, source = unix.IPPROTO_IPV6, netip.MustParseAddr("2001:db8::7")
	}
	native := binary.NativeEndian.AppendUint32
	// struct sockaddr_storage
	storage := func(b []byte, a netip.Addr) []byte {
		var s [128]byte
		if a.Is4() {
			binary.NativeEndian.PutUint16(s[:], unix.AF_INET)
			copy(s[4:], a.AsSlice())
		} else {
			binary.NativeEndian.PutUint16(s[:], unix.AF_INET6)
			copy(s[8:], a.AsSlice())
		}
		return append(b, s[:]...)
	}
	loopback := []byte{127, 0, 0, 1}
	var value []byte
	join := func() error { return nil }
	switch option {
	case "add":
		if number = unix.IP_ADD_MEMBERSHIP; level == "ip6" {
			number = unix.IPV6_JOIN_GROUP
			value = native(group.AsSlice(), lo) // struct ipv6_mreq
			break
		}
		value = native(append(group.AsSlice(), loopback...), lo) // struct ip_mreqn
	case "anycast":
		number, value = unix.IPV6_JOIN_ANYCAST, native(group.AsSlice(), lo)
	case "source": // struct ip_mreq_source
		number = unix.IP_ADD_SOURCE_MEMBERSHIP
		value = append(append(group.AsSlice(), loopback...), source.AsSlice()...)
	case "msfilter": // struct ip_msfilter, which takes a membership
		number = ipMsfilter
		value = append(native(native(append(group.AsSlice(), loopback...), 1), 1), source.AsSlice()...)
		join = func() error {
			return unix.SetsockoptString(fd, proto, unix.IP_ADD_MEMBERSHIP, string(native(append(group.AsSlice(), loopback...), lo)))
		}
	case "group", "group-source", "group-msfilter":
		value = storage(native(native(nil, lo), 0), group) // struct group_req
		switch option {
		case "group":
			number = unix.MCAST_JOIN_GROUP
		case "group-source":
			number, value = unix.MCAST_JOIN_SOURCE_GROUP, storage(value, source)
		default: // struct group_filter
			first := string(value)
			join = func() error { return unix.SetsockoptString(fd, proto, unix.MCAST_JOIN_GROUP, first) }
			number, value = mcastMsfilter, storage(native(native(value, 1), 1), source)
		}
	default:
		return fmt.Errorf("there is no option %q", option)
	}
	if err := join(); err != nil {
		return err
	}
	return unix.SetsockoptString(fd, proto, number, string(value))
}
