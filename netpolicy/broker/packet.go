//go:build linux

package broker

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Packets of the sandbox's link: an Ethernet header, IPv4 or IPv6, and UDP. All of it is
// hostile. Checksums of incoming packets are ignored: the kernel leaves them to the device.

const (
	etherSize   = 14
	ip4Size     = 20
	ip6Size     = 40
	udpSize     = 8
	icmpSize    = 8
	hopLimit    = 64
	fragmented  = 0x3fff // more fragments, or an offset
	unreach4    = 3      // ICMP_DEST_UNREACH, with ICMP_PORT_UNREACH
	unreachPort = 3
	unreach6    = 1 // ICMPV6_DEST_UNREACH, with ICMPV6_PORT_UNREACH
	noPort6     = 4
)

// A datagram is a parsed packet.
type datagram struct {
	from, to netip.AddrPort // ports are 0 where it is not UDP
	protocol uint8
	payload  []byte // of UDP
	ip       []byte // the packet, from its IP header on
}

// parse parses a frame. Not ok: it is not a whole IP packet, or it is a fragment.
func parse(frame []byte) (d datagram, ok bool) {
	if len(frame) < etherSize {
		return d, false
	}
	d.ip = frame[etherSize:]
	var body []byte
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		body, ok = d.parse4()
	case unix.ETH_P_IPV6:
		body, ok = d.parse6()
	}
	if !ok || d.protocol != unix.IPPROTO_UDP {
		return d, ok
	}
	if len(body) < udpSize {
		return d, false
	}
	size := int(binary.BigEndian.Uint16(body[4:]))
	if size < udpSize || size > len(body) {
		return d, false
	}
	d.from = netip.AddrPortFrom(d.from.Addr(), binary.BigEndian.Uint16(body))
	d.to = netip.AddrPortFrom(d.to.Addr(), binary.BigEndian.Uint16(body[2:]))
	d.payload = body[udpSize:size]
	return d, true
}

func (d *datagram) parse4() (body []byte, ok bool) {
	p := d.ip
	if len(p) < ip4Size || p[0]>>4 != 4 {
		return nil, false
	}
	header, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
	if header < ip4Size || total < header || total > len(p) || binary.BigEndian.Uint16(p[6:])&fragmented != 0 {
		return nil, false
	}
	d.ip, d.protocol = p[:total], p[9]
	d.from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[12:16])), 0)
	d.to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[16:20])), 0)
	return d.ip[header:], true
}

// parse6 accepts no extension headers: a packet with one counts as not UDP, and is not relayed.
func (d *datagram) parse6() (body []byte, ok bool) {
	p := d.ip
	if len(p) < ip6Size || p[0]>>4 != 6 {
		return nil, false
	}
	total := ip6Size + int(binary.BigEndian.Uint16(p[4:]))
	if total > len(p) {
		return nil, false
	}
	d.ip, d.protocol = p[:total], p[6]
	d.from = netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[8:24])), 0)
	d.to = netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[24:40])), 0)
	return d.ip[ip6Size:], true
}

// headers is the number of bytes before the payload in a frame.
func headers(a netip.Addr) int {
	if a.Is4() {
		return etherSize + ip4Size + udpSize
	}
	return etherSize + ip6Size + udpSize
}

// udp writes the headers of a message into frame, which has the payload already.
func udp(frame []byte, from, to netip.AddrPort) {
	segment := frame[headers(to.Addr())-udpSize:]
	binary.BigEndian.PutUint16(segment, from.Port())
	binary.BigEndian.PutUint16(segment[2:], to.Port())
	binary.BigEndian.PutUint16(segment[4:], uint16(len(segment)))
	binary.BigEndian.PutUint16(segment[6:], 0)
	ip(frame, from.Addr(), to.Addr(), unix.IPPROTO_UDP, len(segment))
	sum := checksum(segment, pseudo(from.Addr(), to.Addr(), unix.IPPROTO_UDP, len(segment)))
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(segment[6:], sum)
}

// unreachable is a frame with the ICMP error for the sender of d.
func unreachable(d *datagram) []byte {
	from, to := d.to.Addr(), d.from.Addr()
	quoted := d.ip[:min(len(d.ip), 512)]
	size := icmpSize + len(quoted)
	frame := make([]byte, headers(to)-udpSize+size)
	icmp := frame[len(frame)-size:]
	copy(icmp[icmpSize:], quoted)
	if to.Is4() {
		icmp[0], icmp[1] = unreach4, unreachPort
		ip(frame, from, to, unix.IPPROTO_ICMP, size)
		binary.BigEndian.PutUint16(icmp[2:], checksum(icmp, 0))
		return frame
	}
	icmp[0], icmp[1] = unreach6, noPort6
	ip(frame, from, to, unix.IPPROTO_ICMPV6, size)
	binary.BigEndian.PutUint16(icmp[2:], checksum(icmp, pseudo(from, to, unix.IPPROTO_ICMPV6, size)))
	return frame
}

// ip writes the Ethernet and IP headers for size bytes of a protocol.
func ip(frame []byte, from, to netip.Addr, protocol uint8, size int) {
	copy(frame, linkAddress[:])
	copy(frame[6:], relayAddress[:])
	p := frame[etherSize:]
	if to.Is4() {
		binary.BigEndian.PutUint16(frame[12:], unix.ETH_P_IP)
		clear(p[:ip4Size])
		p[0], p[8], p[9] = 4<<4|ip4Size/4, hopLimit, protocol
		binary.BigEndian.PutUint16(p[2:], uint16(ip4Size+size))
		a, b := from.As4(), to.As4()
		copy(p[12:], a[:])
		copy(p[16:], b[:])
		binary.BigEndian.PutUint16(p[10:], checksum(p[:ip4Size], 0))
		return
	}
	binary.BigEndian.PutUint16(frame[12:], unix.ETH_P_IPV6)
	clear(p[:8])
	p[0], p[6], p[7] = 6<<4, protocol, hopLimit
	binary.BigEndian.PutUint16(p[4:], uint16(size))
	a, b := from.As16(), to.As16()
	copy(p[8:], a[:])
	copy(p[24:], b[:])
}

// pseudo is the sum of the pseudo header.
func pseudo(from, to netip.Addr, protocol uint8, size int) uint32 {
	return sum(from.AsSlice(), sum(to.AsSlice(), uint32(protocol)+uint32(size)))
}

// checksum is the Internet checksum, RFC 1071.
func checksum(b []byte, start uint32) uint16 {
	s := sum(b, start)
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

func sum(b []byte, s uint32) uint32 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}
