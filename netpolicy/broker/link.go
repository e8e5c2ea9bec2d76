//go:build linux

package broker

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
)

// The link of a sandbox for what is not TCP: a pair of veth devices, both its own. Into the first go
// all packets that are not for its own addresses; at the second a packet socket belongs to the relay,
// which is outside. Making it takes half a millisecond, so it is made for the first message.
const (
	loopbackIndex = 1
	linkIndex     = 2
	relayIndex    = 3
	linkMTU       = 65535
	iffNoARP      = unix.IFF_UP | unix.IFF_NOARP
	vethPeer      = 1 // VETH_INFO_PEER
)

// linkAddress is the first device's hardware address.
var linkAddress = [6]byte{0x02, 'n', 's', 'r', 'u', 'n'}

// relayAddress is where what comes back is from. Nobody looks at it.
var relayAddress = [6]byte{0x02, 'r', 'e', 'l', 'a', 'y'}

// addresses are the messages that give the sandbox addresses that are not loopback ones, without
// which programs would think that there is no network. v6 says whether there is IPv6.
func addresses(v6 bool) []sandbox.Link {
	var m, m6 messages
	m.address(unix.AF_INET, address4, 32)
	all := []sandbox.Link{{Messages: m.b}}
	if v6 {
		m6.address(unix.AF_INET6, address6, 128)
		all = append(all, sandbox.Link{Messages: m6.b, Optional: true})
	}
	return all
}

// link are the messages that make the link and the routes to it.
func link() []byte {
	var m messages
	m.begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	m.device(linkIndex, "net0", linkAddress[:])
	info := m.open(unix.IFLA_LINKINFO)
	m.attr(unix.IFLA_INFO_KIND, []byte("veth"))
	data := m.open(unix.IFLA_INFO_DATA)
	peer := m.open(vethPeer)
	m.device(relayIndex, "relay", nil)
	m.end(peer)
	m.end(data)
	m.end(info)
	m.finish()
	// Not before the pair is one.
	m.up(relayIndex)
	m.up(linkIndex)
	m.route(unix.AF_INET, address4)
	return m.b
}

// link6 are the messages for IPv6, which may be missing.
func link6() []byte {
	var m messages
	m.route(unix.AF_INET6, address6)
	m.local(address6)
	return m.b
}

// messages are rtnetlink(7) messages in a row.
type messages struct {
	b  []byte
	at int // where the last one begins
}

func (m *messages) u16(v uint16) { m.b = binary.NativeEndian.AppendUint16(m.b, v) }
func (m *messages) u32(v uint32) { m.b = binary.NativeEndian.AppendUint32(m.b, v) }

// begin adds a struct nlmsghdr.
func (m *messages) begin(kind, flags uint16) {
	m.at = len(m.b)
	m.u32(0)
	m.u16(kind)
	m.u16(unix.NLM_F_REQUEST | flags)
	m.u32(0)
	m.u32(0)
}

// finish says how long the message is.
func (m *messages) finish() { binary.NativeEndian.PutUint32(m.b[m.at:], uint32(len(m.b)-m.at)) }

// open begins an attribute that holds others.
func (m *messages) open(kind uint16) (at int) {
	at = len(m.b)
	m.u16(0)
	m.u16(kind)
	return at
}

func (m *messages) end(at int) {
	binary.NativeEndian.PutUint16(m.b[at:], uint16(len(m.b)-at))
	for len(m.b)%4 != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *messages) attr(kind uint16, v []byte) {
	at := m.open(kind)
	m.b = append(m.b, v...)
	m.end(at)
}

func (m *messages) attrU32(kind uint16, v uint32) {
	m.attr(kind, binary.NativeEndian.AppendUint32(nil, v))
}

// up brings a device up.
func (m *messages) up(index uint32) {
	m.begin(unix.RTM_NEWLINK, 0)
	m.info(index, iffNoARP)
	m.finish()
}

// info adds a struct ifinfomsg.
func (m *messages) info(index, flags uint32) {
	m.u32(0)
	m.u32(index)
	m.u32(flags)
	m.u32(flags)
}

// device adds what is said of a new device. What is sent is not to be left for the device
// to segment: the relay could not tell it from one message.
func (m *messages) device(index uint32, name string, hardware []byte) {
	m.info(index, 0)
	m.attr(unix.IFLA_IFNAME, append([]byte(name), 0))
	m.attrU32(unix.IFLA_MTU, linkMTU)
	m.attrU32(unix.IFLA_GSO_MAX_SEGS, 1)
	m.attrU32(unix.IFLA_NUM_TX_QUEUES, 1)
	m.attrU32(unix.IFLA_NUM_RX_QUEUES, 1)
	if hardware != nil {
		m.attr(unix.IFLA_ADDRESS, hardware)
	}
}

// address adds an address: of the loopback device, which is always there.
func (m *messages) address(family uint8, a netip.Addr, bits uint8) {
	m.begin(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	m.b = append(m.b, family, bits, unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE) // struct ifaddrmsg
	m.u32(loopbackIndex)
	m.attr(unix.IFA_LOCAL, a.AsSlice())
	m.attr(unix.IFA_ADDRESS, a.AsSlice())
	m.finish()
}

// local adds the route of an own IPv6 address. The kernel adds it, too, but in a work of its own, which waits where
// other network namespaces come and go: until then it would drop answers to the address.
func (m *messages) local(a netip.Addr) {
	m.begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	m.b = append(m.b, unix.AF_INET6, 128, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL) // struct rtmsg
	m.u32(0)
	m.attr(unix.RTA_DST, a.AsSlice())
	m.attrU32(unix.RTA_OIF, loopbackIndex)
	m.finish()
}

// route adds the default route.
func (m *messages) route(family uint8, from netip.Addr) {
	m.begin(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	scope := uint8(unix.RT_SCOPE_LINK)
	if family == unix.AF_INET6 {
		scope = unix.RT_SCOPE_UNIVERSE
	}
	m.b = append(m.b, family, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, scope, unix.RTN_UNICAST) // struct rtmsg
	m.u32(0)
	m.attrU32(unix.RTA_OIF, linkIndex)
	m.attr(unix.RTA_PREFSRC, from.AsSlice())
	m.finish()
}
