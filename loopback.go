//go:build linux

package nsrun

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
)

// refusedLoopback is a refused connection to a server on this host's loopback device: one that exists there, and not in
// the sandbox of the process.
func refusedLoopback(to netip.AddrPort, process int) (r Refusal, ok bool) {
	if !listens("self", to) || listens(strconv.Itoa(process), to) {
		return r, false
	}
	rule := "tcp:" + to.String()
	return Refusal{
		Kind: RefusedConnect, Op: "connect", Target: "tcp " + to.String(), Rule: loopbackRule, Why: "the loopback device is the sandbox's own",
		Flag: "--allow-net " + rule, flag: "--allow-net", value: rule, Count: 1,
	}, true
}

// listens reports whether a server listens at an address, or at all, in the network namespace of a process.
func listens(process string, to netip.AddrPort) bool {
	const listening = "0A"
	for _, file := range [...]string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/" + process + "/net/" + file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			words := bytes.Fields(line)
			if len(words) < 4 || string(words[3]) != listening {
				continue
			}
			if at, ok := procAddr(words[1]); ok && at.Port() == to.Port() && (at.Addr() == to.Addr() || at.Addr().IsUnspecified()) {
				return true
			}
		}
	}
	return false
}

// procAddr parses an address in /proc/net/tcp: words of four bytes in this machine's byte order, little-endian.
func procAddr(text []byte) (at netip.AddrPort, ok bool) {
	addr, port, found := bytes.Cut(text, []byte(":"))
	b, err := hex.DecodeString(string(addr))
	n, perr := strconv.ParseUint(string(port), 16, 16)
	if !found || err != nil || perr != nil || len(b)%4 != 0 {
		return at, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok
}
