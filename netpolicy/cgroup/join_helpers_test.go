//go:build linux

package cgroup_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// tryJoin joins a group, in two ways.
func tryJoin(text string) error {
	group := netip.MustParseAddr(text)
	family, level, join, value := unix.AF_INET, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, append(group.AsSlice(), 127, 0, 0, 1)
	storage := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, unix.AF_INET, 0, 0, 0}, group.AsSlice()...) // struct group_req
	if group.Is6() {
		family, level, join = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP
		value = binary.NativeEndian.AppendUint32(group.AsSlice(), 1)
		storage = append([]byte{1, 0, 0, 0, 0, 0, 0, 0, unix.AF_INET6, 0, 0, 0, 0, 0, 0, 0}, group.AsSlice()...)
	}
	s, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	first := unix.SetsockoptString(s, level, join, string(value))
	second := unix.SetsockoptString(s, level, unix.MCAST_JOIN_GROUP, string(append(storage, make([]byte, 136-len(storage))...)))
	if first != second {
		return fmt.Errorf("%v, and %v", first, second)
	}
	return first
}

// trySet sets options that join nothing, one of them with more memory than a page.
func trySet() error {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	large := make([]byte, 1<<16)
	large[0] = 1
	return errors.Join(
		unix.SetsockoptString(s, unix.SOL_SOCKET, unix.SO_BROADCAST, string(large)),
		unix.SetsockoptInt(s, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, 3),
		unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 3),
		unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 20),
		unix.SetsockoptInt(s, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000))
}

// sharing are the options with which sockets share a port.
var sharing = map[string]int{"reuseaddr": unix.SO_REUSEADDR, "reuseport": unix.SO_REUSEPORT}

// tryShare has the kernel choose a port of UDP that can only be one that a server has.
func tryShare(option, addr string) error {
	a := netip.MustParseAddrPort(addr)
	s, err := socket(a, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	const portRange = 51 // IP_LOCAL_PORT_RANGE in the kernel's include/uapi/linux/in.h
	one := uint32(a.Port())<<16 | uint32(a.Port())
	err = errors.Join(
		unix.SetsockoptInt(s, unix.SOL_SOCKET, sharing[option], 1),
		unix.SetsockoptInt(s, unix.IPPROTO_IP, portRange, int(one)))
	if err != nil {
		return err
	}
	return unix.Bind(s, sockaddr(netip.AddrPortFrom(a.Addr(), 0)))
}
