//go:build linux

package broker_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/nsexec"
)

// BenchmarkConnect is the median time of connect(2) on the loopback device.
func BenchmarkConnect(b *testing.B) {
	at := acceptor(b)
	report := func(b *testing.B, out string) {
		var median, worst float64
		if _, err := fmt.Sscan(out, &median, &worst); err != nil {
			b.Fatalf("%q: %v", out, err)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median/1000, "µs/connect")
		b.ReportMetric(worst/1000, "µs-p99")
	}
	const count = "3000"
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			c := exec.Command(exe(b), at, count)
			c.Env = append(os.Environ(), helperEnv+"=bench")
			out, err := c.Output()
			if err != nil {
				b.Fatal(err)
			}
			report(b, string(out))
		}
	})
	b.Run("broker", func(b *testing.B) {
		for b.Loop() {
			c := helper(b, "bench", at, count)
			attach(b, c, allow("tcp:"+at))
			report(b, output(b, c))
		}
	})
}

// acceptor is a server in a process of its own, as servers are.
func acceptor(b *testing.B) string {
	b.Helper()
	c := exec.Command(exe(b))
	c.Env = append(os.Environ(), helperEnv+"=acceptor")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	var at string
	if _, err := fmt.Fscan(out, &at); err != nil {
		b.Fatal(err)
	}
	return at
}

// BenchmarkStart is the time of a sandbox from start to end, without a network and with
// one.
func BenchmarkStart(b *testing.B) {
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			if err := command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("broker", func(b *testing.B) {
		for b.Loop() {
			c := command("true")
			run(b, c)
		}
	})
}

// run runs a command with a Broker that allows nothing.
func run(b *testing.B, c *nsexec.Cmd) {
	k := attach(b, c, allow())
	defer k.Close()
	if err := c.Run(); err != nil {
		b.Fatal(err)
	}
}
