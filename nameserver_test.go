//go:build linux

package nsrun_test

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/netpolicy"
)

// TestNameServer: the command's name server answers the command, and not the host's other programs, which learn from
// it which names the rules allow.
func TestNameServer(t *testing.T) {
	enforcers(t, func(t *testing.T, e nsrun.Enforcer) {
		if e == nsrun.KernelEnforcer {
			nettest.NeedSocketCgroups(t)
		}
		in, end := io.Pipe()
		said, out := io.Pipe()
		r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Enforcer: e, Net: netpolicy.MustParse("given.test:443")})
		x, err := r.Start(t.Context(), nsrun.Request{
			Command: `sed -n 's/^nameserver //p' /etc/resolv.conf; getent -s dns hosts localhost; read line`, Stdin: in, Stdout: out,
		})
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(said)
		lines.Scan()
		server := lines.Text()
		lines.Scan()
		if !strings.HasSuffix(lines.Text(), "localhost") { // the control
			t.Errorf("the command got %q", lines.Text())
		}
		c := dns.Client{Net: "tcp"}
		if m, _, err := c.Exchange(new(dns.Msg).SetQuestion("localhost.", dns.TypeA), net.JoinHostPort(server, "53")); err == nil {
			t.Errorf("the host got %v", m)
		}
		_ = end.Close()
		go func() { _, _ = io.Copy(io.Discard, said) }()
		if _, err := x.Wait(); err != nil {
			t.Error(err)
		}
	})
}
