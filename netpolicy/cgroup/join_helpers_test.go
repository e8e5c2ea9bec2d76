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
		unix.SetsockoptString(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, string(large)),
		unix.SetsockoptInt(s, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, 3),
		unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 3),
		unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 20),
		unix.SetsockoptInt(s, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000),
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
}
