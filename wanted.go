//go:build linux

package nsrun

import (
	"net/netip"
	"slices"

	"github.com/nsrun/nsrun/netpolicy"
)

// mostWanted is how many addresses a flag can name.
const mostWanted = 4

// wanted is what a command that has no network tried to reach. If it looked up no name, rules for the addresses allow
// it. The names are not known: nobody answers where the command asks.
type wanted struct {
	rules []string
	other bool // names, or too many addresses
}

func (w *wanted) add(proto netpolicy.Proto, to netip.AddrPort) {
	rule := proto.String() + ":" + to.String()
	switch {
	case to.Port() == 0 || slices.Contains(w.rules, rule): // libraries sort addresses by such sockets
	case to.Port() == domain || to.Addr().Zone() != "" || to.Addr().IsMulticast() || len(w.rules) == mostWanted:
		w.other = true
	default:
		w.rules = append(w.rules, rule)
	}
}

// flags are those that would have allowed everything. Empty: unknown.
func (w *wanted) flags() (flags string) {
	if w.other {
		return ""
	}
	for i, rule := range w.rules {
		if i > 0 {
			flags += " "
		}
		flags += "--allow-net " + rule
	}
	return flags
}
