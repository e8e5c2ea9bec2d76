//go:build linux

package host

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
)

const resolvPath = "/etc/resolv.conf"

// ResolvConf is what the host's resolv.conf(5) says.
type ResolvConf struct {
	Upstreams []netip.AddrPort
	Search    []string // domains that programs append to names
	keep      []string // lines that hold in a sandbox, too
}

func ReadResolvConf() ResolvConf {
	b, _ := os.ReadFile(resolvPath) // without the file there is a server on this host, as programs have it
	c := ResolvConf{Upstreams: netpolicy.ParseResolvConf(string(b)), keep: kept(string(b))}
	for _, line := range c.keep {
		if f := strings.Fields(line); f[0] != "options" {
			c.Search = nil // the last such line holds
			for _, domain := range f[1:] {
				if domain, err := netpolicy.CanonicalName(domain); err == nil {
					c.Search = append(c.Search, domain)
				}
			}
		}
	}
	return c
}

// kept are the lines about the meaning of names; other lines are about servers that commands do not talk to.
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

// Mount shows commands a file that names one server.
func (c ResolvConf) Mount(server netip.Addr) mounts.Plan {
	path, err := filepath.EvalSymlinks(resolvPath)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			return nil
		}
		// If the link leads nowhere, its target may be in a place that is empty in the sandbox.
		if path, err = os.Readlink(resolvPath); err != nil {
			return nil
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(resolvPath), path)
		}
		if !plan.Private(path) {
			return nil
		}
	}
	text := []byte("nameserver " + server.String() + "\n" + strings.Join(append(slices.Clone(c.keep), ""), "\n"))
	if plan.Private(path) {
		return mounts.Plan{mounts.File(path, text).WithPerm(0o644)}
	}
	return mounts.Plan{mounts.Data(path, text).RO().WithPerm(0o644)}
}
