//go:build linux

package nsrun

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
)

const resolvPath = "/etc/resolv.conf"

// resolvConf is what the host's resolv.conf(5) says.
type resolvConf struct {
	upstreams []netip.AddrPort
	keep      []string // lines that hold in a sandbox, too
}

// readResolvConf reads it.
func readResolvConf() resolvConf {
	b, _ := os.ReadFile(resolvPath) // without the file there is a server on this host, as programs have it
	return resolvConf{netpolicy.ParseResolvConf(string(b)), kept(string(b))}
}

// kept are the lines about what names mean; others are about servers that commands do not
// talk to.
func kept(text string) (lines []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "search", "domain":
			lines = append(lines, strings.Join(f, " "))
		case "options":
			f = slices.DeleteFunc(f, func(o string) bool { return o != "options" && !strings.HasPrefix(o, "ndots:") })
			if len(f) > 1 {
				lines = append(lines, strings.Join(f, " "))
			}
		}
	}
	return lines
}

// mount shows commands a file with one server.
func (c resolvConf) mount(server netip.Addr) mounts.Plan {
	path, err := filepath.EvalSymlinks(resolvPath)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			return nil
		}
		// A link that leads nowhere may lead to a place that is made anew.
		if path, err = os.Readlink(resolvPath); err != nil {
			return nil
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(resolvPath), path)
		}
		if !inPrivatePlace(path) {
			return nil
		}
	}
	text := []byte("nameserver " + server.String() + "\n" + strings.Join(append(slices.Clone(c.keep), ""), "\n"))
	if inPrivatePlace(path) {
		return mounts.Plan{mounts.File(path, text).WithPerm(0o644)}
	}
	return mounts.Plan{mounts.Data(path, text).RO().WithPerm(0o644)}
}

// listenDNS listens on port 53 of a loopback address that nobody uses.
func listenDNS() (udp net.PacketConn, tcp net.Listener, at netip.AddrPort, err error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // on a loopback device
	for range 20 {
		// Not in 127.0.0.0/16, where servers of the host are.
		n := rand.Uint32()
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n) | 1}), 53)
		if udp, err = net.ListenPacket("udp4", at.String()); err == nil {
			if tcp, err = plain.Listen(context.Background(), "tcp4", at.String()); err == nil {
				return udp, tcp, at, nil
			}
			_ = udp.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, nil, at, &Error{"listen for DNS", at.String(), err}
}
