//go:build linux

package nsrun

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/netpolicy"
)

// refusedLoopback is a refused connection to a server on this host's loopback device: one that exists there, and not in
// the sandbox of the process.
func refusedLoopback(proto netpolicy.Proto, to netip.AddrPort, process int) (r Refusal, ok bool) {
	if !listens("self", proto, to) || listens(strconv.Itoa(process), proto, to) {
		return r, false
	}
	return ownLoopback(proto, to), true
}

// ownLoopback is a refused connection to a server on this host's loopback device.
func ownLoopback(proto netpolicy.Proto, to netip.AddrPort) Refusal {
	rule := proto.String() + ":" + to.String()
	return Refusal{
		Kind: RefusedConnect, Op: "connect", Target: proto.String() + " " + to.String(), Rule: loopbackRule,
		Why:  "the loopback device is the sandbox's own",
		Flag: "--allow-net " + rule, flag: "--allow-net", value: rule, Count: 1,
	}
}

// mostServers is how many addresses in messages are looked for among this host's servers: each time, all of those are
// read.
const mostServers = 10

// unreached are what programs say of a server that is not there.
var unreached = [...][]byte{[]byte("connection refused"), []byte("econnrefused"), []byte("couldn't connect to server"), []byte("can't connect to")}

// servers adds the servers on this host's loopback device that a message says cannot be reached. Where it names no
// address, as in Python, those of the command line are meant.
func (t *refusalTable) servers(lower []byte) {
	if t.reaches == nil || !slices.ContainsFunc(unreached[:], func(text []byte) bool { return bytes.Contains(lower, text) }) {
		return
	}
	// This is what curl says of unix sockets, too.
	if bytes.Contains(lower, []byte("couldn't connect to server")) && strings.Contains(strings.Join(t.args, " "), "--unix-socket") {
		t.guesses.socket.add(t, t.socket)
	}
	list := loopbackIn(string(lower))
	if len(list) == 0 && !t.argsAsked { // once is enough
		t.argsAsked = true
		list = loopbackIn(strings.ToLower(strings.Join(t.args, " ")))
	}
	for _, to := range list {
		if t.asked[to] || len(t.asked) == mostServers {
			continue
		}
		if t.asked == nil {
			t.asked = map[netip.AddrPort]bool{}
		}
		t.asked[to] = true
		for _, proto := range protocols {
			if !t.reaches(proto, to) && listens("self", proto, to) {
				t.add(ownLoopback(proto, to))
				break
			}
		}
	}
}

var protocols = [...]netpolicy.Proto{netpolicy.TCP, netpolicy.UDP}

// loopbackIn are the addresses in a text, in lower case, that are of the loopback device and have a port:
// 127.0.0.1:80, "localhost", port 80, host='127.0.0.1', port=80, [::1]:80.
func loopbackIn(text string) (list []netip.AddrPort) {
	local := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	const name, digits = "localhost", "0123456789"
	for len(text) > 0 {
		var hosts []netip.Addr
		rest := text[1:]
		switch {
		case strings.HasPrefix(text, name):
			hosts, rest = local, text[len(name):]
		case strings.HasPrefix(text, "::1"):
			hosts, rest = local[1:], text[len("::1"):]
		case strings.HasPrefix(text, "127."):
			rest = strings.TrimLeft(text, digits+".")
			if a, err := netip.ParseAddr(strings.TrimRight(text[:len(text)-len(rest)], ".")); err == nil {
				hosts = []netip.Addr{a}
			}
		}
		if hosts != nil {
			const between = " \"'],:/=("
			rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(rest, between), "port"), between)
			behind := strings.TrimLeft(rest, digits)
			number := rest[:len(rest)-len(behind)]
			address := len(behind) > 1 && behind[0] == '.' && strings.Contains(digits, behind[1:2]) // another one
			if port, err := strconv.ParseUint(number, 10, 16); err == nil && port > 0 && !address {
				for _, host := range hosts {
					list = append(list, netip.AddrPortFrom(host, uint16(port)))
				}
			}
		}
		text = rest
	}
	return list
}

// listens reports whether a server listens at an address, or at all, in the network namespace of a process. A socket
// for UDP that is connected to another one serves nobody else.
func listens(process string, proto netpolicy.Proto, to netip.AddrPort) bool {
	state := "0A" // TCP_LISTEN
	if proto == netpolicy.UDP {
		state = "07" // TCP_CLOSE: not connected
	}
	for _, file := range [...]string{proto.String(), proto.String() + "6"} {
		text, err := os.ReadFile("/proc/" + process + "/net/" + file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			words := bytes.Fields(line)
			if len(words) < 4 || string(words[3]) != state {
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
