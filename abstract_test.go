//go:build linux

package nsrun_test

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// TestAbstractSockets: the host's network does not come with the host's abstract sockets, unless
// they are asked for, which is the control.
func TestAbstractSockets(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	name := "@/tmp/.X11-unix/nsrun-" + strconv.Itoa(os.Getpid())
	ln, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const refused, none = "operation not permitted\n", "connection refused\n"
	for _, c := range []struct {
		name    string
		network bool
		allow   []string
		rules   bool
		want    string
	}{
		{"control", true, []string{nsrun.AbstractSockets}, false, "reached\n"},
		{"network", true, nil, false, refused},
		{"without a network", false, []string{nsrun.AbstractSockets}, false, none},
		{"rules", false, []string{nsrun.AbstractSockets}, true, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := place(t)
			config := nsrun.Config{Project: dir + "/p", After: nsrun.Discard, Approver: yes{}, AllowUnix: c.allow}
			if c.rules {
				config.Net = netpolicy.MustParse("tcp:127.0.0.1:9")
			}
			needFor(t, config)
			if c.network && c.allow == nil {
				need(t, features.LandlockScopes)
			}
			q := insideRequest(t, "dial", name)
			q.Network = c.network
			got := output(t, runner(t, shown(t, config)), q)
			if got != c.want && !(c.rules && got == refused) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	// What DefaultMounts and a Spec alone make of it.
	for _, c := range []struct {
		open bool
		want string
	}{{true, "reached\n"}, {false, refused}} {
		t.Run(fmt.Sprintf("a Spec with AbstractSockets %v", c.open), func(t *testing.T) {
			if !c.open {
				need(t, features.LandlockScopes)
			}
			cmd := nsrun.Spec{Mounts: append(nsrun.DefaultMounts(), shownMount(t)), Share: nsexec.Net, AbstractSockets: c.open}.Command(self(t), name)
			cmd.Env = []string{insideEnv + "=dial"}
			out, err := cmd.Output()
			if err != nil || string(out) != c.want {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}
