//go:build linux

package broker_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestLocalUDP: UDP servers on the host's loopback device are reached under their own
// addresses, if they are allowed.
func TestLocalUDP(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			testenv.Leaks(t, nsexec.Shutdown)
			at, stop := udpEcho(address)
			defer stop()
			for _, tt := range []struct {
				helper string
				rules  *rules
				want   string
			}{
				{"udp", allow("udp:" + at.String()), "re:ping same\nre:ping same"},
				{"udpnone", allow(), "EAGAIN"},
			} {
				o := tt.rules.options()
				o.LocalUDP = []netip.AddrPort{at}
				c := helper(t, tt.helper, at.String())
				b := attachOptions(t, c, o)
				if got := output(t, c); got != tt.want {
					t.Errorf("%s: got\n%s\nwant\n%s", tt.helper, got, tt.want)
				}
				b.Close()
				if !slices.Contains(tt.rules.asked, "udp:"+at.String()) {
					t.Errorf("asked: %q", tt.rules.asked)
				}
			}
		})
	}
}
