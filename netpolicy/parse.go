package netpolicy

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
)

// Parse reads a rule:
//
//	[tcp:|udp:](host|*.suffix|address|prefix|*)[:port[-port]]
//
// An IPv6 address or prefix that is followed by a port must be in brackets: [::1]:80,
// [2001:db8::/32]:443. Without a port the brackets are optional, so 2001:db8::1:443 is an address.
func Parse(text string) (Rule, error) {
	r, err := parse(text)
	if err != nil {
		return Rule{}, &Error{"rule", text, err}
	}
	return r, nil
}

func parse(s string) (r Rule, err error) {
	if rest, ok := strings.CutPrefix(s, "tcp:"); ok {
		r.Proto, s = TCP, rest
	} else if rest, ok := strings.CutPrefix(s, "udp:"); ok {
		r.Proto, s = UDP, rest
	}
	if strings.Contains(s, "://") {
		return r, errors.New("this is a URL; write its host and port only")
	}
	host, port, hasPort, err := cutPort(s)
	if err != nil {
		return r, err
	}
	if hasPort {
		if r.First, r.Last, err = parsePorts(port); err != nil {
			return r, err
		}
	}
	bracketed := strings.HasPrefix(s, "[")
	switch {
	case host == "" && !bracketed:
		return r, errors.New("there is no host; * stands for any")
	case host == "*":
		r.Any = true
		return r, nil
	case bracketed || strings.ContainsAny(host, ":/"):
		r.Prefix, err = parsePrefix(host)
		if err == nil && bracketed && !r.Prefix.Addr().Is6() && !strings.Contains(host, ":") {
			err = errors.New("brackets are for IPv6 addresses")
		}
		return r, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		r.Prefix, err = onePrefix(a)
		return r, err
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		r.Suffix, host = true, rest
	}
	if strings.Contains(host, "*") {
		return r, errors.New("* must be the whole name, or stand before the first dot: *.example.org")
	}
	if r.Host, err = CanonicalName(host); err != nil {
		return r, err
	}
	if r.Host == "localhost" || strings.HasSuffix(r.Host, ".localhost") {
		return r, errors.New("a name in a rule cannot mean this machine; write the address, 127.0.0.1 or [::1]")
	}
	return r, nil
}

// cutPort splits host and port, and takes the brackets off.
func cutPort(s string) (host, port string, hasPort bool, err error) {
	if strings.HasPrefix(s, "[") {
		host, rest, ok := strings.Cut(s[1:], "]")
		if !ok {
			return "", "", false, errors.New("a closing bracket is missing")
		}
		port, hasPort := strings.CutPrefix(rest, ":")
		if rest != "" && !hasPort {
			return "", "", false, errors.New("only :port may follow the bracket; a prefix is written [2001:db8::/32]")
		}
		return host, port, hasPort, nil
	}
	if strings.Count(s, ":") > 1 {
		return s, "", false, nil // an IPv6 address
	}
	host, port, hasPort = strings.Cut(s, ":")
	return host, port, hasPort, nil
}

func parsePorts(s string) (first, last uint16, err error) {
	a, b, isRange := strings.Cut(s, "-")
	if first, err = parsePort(a); err != nil || !isRange {
		return first, first, err
	}
	if last, err = parsePort(b); err == nil && last < first {
		err = errors.New("the last port is below the first")
	}
	return first, last, err
}

func parsePort(s string) (uint16, error) {
	if s == "" {
		return 0, errors.New("a port is missing; ports are 1 to 65535")
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s != strconv.FormatUint(n, 10) {
		return 0, errors.New(escape.Quote(s) + " is not a port; ports are 1 to 65535")
	}
	return uint16(n), nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			if strings.Contains(s, "@") {
				return netip.Prefix{}, errUser
			}
			return netip.Prefix{}, errors.New(escape.Quote(s) + " is not an address; protocols are tcp: and udp:, and with a port it is [address]:port")
		}
		return onePrefix(a)
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if strings.Contains(s, "@") {
			return netip.Prefix{}, errUser
		}
		return netip.Prefix{}, errors.New(escape.Quote(s) + " is not a prefix of addresses")
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, errors.New("IPv4 addresses are written as IPv4: 10.0.0.0/8")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return netip.Prefix{}, errors.New("the address has bits beyond the prefix; write " + p.Masked().String() + " or " + p.Addr().String())
	}
	return p, noDestination(p)
}

func onePrefix(a netip.Addr) (netip.Prefix, error) {
	if a.Zone() != "" {
		return netip.Prefix{}, errors.New("an address with a zone (%) is not one address everywhere; leave the zone out")
	}
	a = a.Unmap()
	p := netip.PrefixFrom(a, a.BitLen())
	return p, noDestination(p)
}

// noDestination refuses 0.0.0.0 and ::, which mean this machine to connect(2), and say so to nobody who reads the rule.
func noDestination(p netip.Prefix) error {
	if p.IsSingleIP() && p.Addr().IsUnspecified() {
		return errors.New("this is not a destination; for this machine write 127.0.0.1 or [::1], for any other *")
	}
	return nil
}
