package netpolicy

import (
	"net"
	"net/netip"
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

// OwnAddrs returns the current addresses of the host, for Policy.HostAddrs.
func OwnAddrs() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, &Error{Op: "list own addresses", Err: err}
	}
	own := make([]netip.Addr, 0, len(list)) // not nil: they are known
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own, nil
}
