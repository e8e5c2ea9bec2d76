package netpolicy

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// ParseHosts reads addresses of names from a file in the format of /etc/hosts. Like other programs, it ignores lines
// that it does not understand.
func ParseHosts(text string) map[string][]netip.Addr {
	hosts := make(map[string][]netip.Addr)
	for fields := range lines(text) {
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || addr.Zone() != "" {
			continue
		}
		for _, f := range fields[1:] {
			if name, err := CanonicalName(f); err == nil {
				hosts[name] = append(hosts[name], addr.Unmap())
			}
		}
	}
	return hosts
}

// ParseResolvConf reads the name servers from a file in the format of /etc/resolv.conf. Without any, it returns the
// server on this machine, as resolv.conf(5) specifies.
func ParseResolvConf(text string) []netip.AddrPort {
	var servers []netip.AddrPort
	for fields := range lines(text) {
		if fields[0] != "nameserver" || len(fields) < 2 {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(addr, 53))
		}
	}
	if servers == nil {
		servers = append(servers, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 53))
	}
	return servers
}

// lines yields the words of each line that has any, without comments.
func lines(text string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			if i := strings.IndexAny(line, "#;"); i >= 0 {
				line = line[:i]
			}
			if fields := strings.Fields(line); len(fields) > 0 && !yield(fields) {
				return
			}
		}
	}
}

// OwnAddrs returns the current addresses of the host, for Policy.HostAddrs. Where netlink sockets are refused, as on
// Android and by units of systemd with RestrictAddressFamilies=, /proc tells.
func OwnAddrs() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		own, perr := addrsInProc(os.ReadFile)
		if perr != nil {
			return nil, &Error{Op: "list own addresses", Err: fmt.Errorf("%w; and not in /proc either: %w (it needs netlink sockets, or a /proc with %s)", err, perr, fibTrie)}
		}
		return own, nil
	}
	own := make([]netip.Addr, 0, len(list)) // not nil: they are known
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own, nil
}

const (
	fibTrie = "/proc/self/net/fib_trie"
	inet6   = "/proc/self/net/if_inet6" // missing: the host has no IPv6
)

// addrsInProc returns the addresses of the host in the files of the kernel.
func addrsInProc(read func(name string) ([]byte, error)) ([]netip.Addr, error) {
	four, err := read(fibTrie)
	if err != nil {
		return nil, err
	}
	six, err := read(inet6)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	own := []netip.Addr{}
	last := netip.Addr{}
	for line := range strings.Lines(string(four)) { // "|-- 192.0.2.2", and in the next line "/32 host LOCAL"
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && fields[0] == "|--":
			last, _ = netip.ParseAddr(fields[1])
		case len(fields) == 3 && fields[0] == "/32" && fields[2] == "LOCAL" && last.IsValid() && !slices.Contains(own, last):
			own = append(own, last)
		}
	}
	for line := range strings.Lines(string(six)) { // the first word is the address, in hexadecimal digits
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if b, err := hex.DecodeString(fields[0]); err == nil {
			if addr, ok := netip.AddrFromSlice(b); ok {
				own = append(own, addr)
			}
		}
	}
	return own, nil
}
