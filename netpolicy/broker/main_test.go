//go:build linux

package broker_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// helperEnv makes this binary one of the programs that tests run in a sandbox.
const helperEnv = "NSRUN_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		os.Exit(helpers()[name](os.Args[1:]))
	}
	nettest.Main()
	testenv.Main(m, nsexec.Shutdown)
}

// exe is this binary.
func exe(t testing.TB) string {
	t.Helper()
	p, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rules allow the targets that they list, and record all that were asked about.
type rules struct {
	mu    sync.Mutex
	allow map[string]bool
	asked []string
}

func allow(ports ...string) *rules {
	r := &rules{allow: make(map[string]bool)}
	for _, p := range ports {
		r.allow[p] = true
	}
	return r
}

func (r *rules) decide(p netpolicy.Proto, to netip.AddrPort) bool {
	name := "tcp:"
	if p == netpolicy.UDP {
		name = "udp:"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, name+to.String())
	return r.allow[name+to.String()]
}

func (r *rules) hostLoopback(to netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allow["tcp:"+to.String()]
}

func (r *rules) options() broker.Options {
	return broker.Options{Decide: r.decide, HostLoopback: r.hostLoopback}
}

// attach gives a command a Broker with these rules, for as long as the test lasts.
func attach(t testing.TB, c *nsexec.Cmd, r *rules) *broker.Broker {
	t.Helper()
	return attachOptions(t, c, r.options())
}

func attachOptions(t testing.TB, c *nsexec.Cmd, o broker.Options) *broker.Broker {
	t.Helper()
	b, err := broker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.Attach(c)
	return b
}

func publishing(port uint16) broker.Options {
	return broker.Options{Publish: []broker.Port{{Inside: port, Host: netip.MustParseAddrPort("127.0.0.1:0")}}}
}

// command is a program that sees the host's files.
func command(name string, args ...string) *nsexec.Cmd {
	c := nsexec.Command(name, args...)
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc"), mounts.Tmpfs("/mnt")}
	c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter()}
	return c
}

// helper is one of the helpers in a sandbox.
func helper(t testing.TB, name string, args ...string) *nsexec.Cmd {
	c := command(exe(t), args...)
	c.Env = append(nsexec.BaseEnv(), helperEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	return c
}

// output runs the command and returns what it said, without the last newline.
func output(t testing.TB, c *nsexec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", c, err, out, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// echo is a TCP server on the host's loopback device that says hello and sends back what
// it gets.
func echo(t testing.TB, address string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_, _ = conn.Write([]byte("hello\n"))
				var b [512]byte
				for {
					n, err := conn.Read(b[:])
					if err != nil {
						return
					}
					_, _ = conn.Write(b[:n])
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}
