//go:build linux

package nettest

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
)

// A program is a real one, that knows nothing of sandboxes and connects in its own way.
type program struct {
	name  string
	needs []string // what has to be installed
	// serve serves what the program wants, and returns what goes into its environment.
	serve func(t testing.TB, s *service) (env []string)
	// script is for sh, with HOST:PORT in its arguments. It prints what came of each, a line: want, or "refused".
	script, want string
}

// A service is a port of TCP and UDP of an address, and a directory that its programs read too.
type service struct {
	conns   *listener
	packets *packets
	dir     string
}

// The addresses, of which the rules allow the first by its name.
const (
	allowedAddr = "203.0.113.1"
	deniedAddr  = "203.0.113.2"
	allowedName = "allowed.test"
	deniedName  = "denied.test"
)

// Home is the home directory of an Execute's command, which can be written to.
const Home = "/mnt"

// Execute has a command run in a sandbox under the rules of a table, with a resolver that is not being served
// yet, and returns what it prints.
type Execute func(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver, env []string, argv ...string) string

// Programs has real programs reach a server that is allowed, by name and by address, and one that is not.
// Without a sandbox they reach that, too. Those are run whose turn it is; without such a function, all.
func Programs(t *testing.T, turn func(i int) bool, run Execute) {
	t.Helper()
	needWorld(t)
	for i, p := range programs {
		if turn != nil && !turn(i) {
			continue
		}
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) { p.run(t, run) })
	}
}

func (p *program) run(t *testing.T, run Execute) {
	for _, name := range p.needs {
		if lookPath(name) == "" {
			testenv.Skip(t, name, "not installed")
		}
	}
	allowed, denied := serve(t, allowedAddr), serve(t, deniedAddr)
	names := StartDNS(t, []string{allowedName + ". 60 A " + allowedAddr, deniedName + ". 60 A " + deniedAddr}, nil)
	port := allowed.addr().Port()
	table, err := netpolicy.NewTable(Policy(t, []string{fmt.Sprintf("%s:%d", allowedName, port)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	resolver := &netpolicy.Resolver{Table: table, Upstreams: []netip.AddrPort{names.Addr}}
	env := append(p.serve(t, allowed), "PATH="+strings.Join(path, ":"), "LC_ALL=C")
	argv := []string{lookPath("timeout"), "60", "/bin/sh", "-c", p.script, p.name}
	got := run(t, table, resolver, append(env, "HOME="+Home), append(argv,
		fmt.Sprintf("%s:%d", allowedName, port), allowed.addr().String(), fmt.Sprintf("%s:%d", deniedName, denied.addr().Port()), denied.addr().String())...)
	if want := p.want + "\n" + p.want + "\nrefused\nrefused"; strings.TrimSpace(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := denied.reached(); n > 0 {
		t.Errorf("the denied server was reached %d times", n)
	}
	// The control.
	c := exec.Command(argv[0], append(argv[1:], denied.addr().String())...)
	c.Env = append(p.serve(t, denied), "PATH="+strings.Join(path, ":"), "LC_ALL=C", "HOME="+testenv.Dir(t))
	out, err := c.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != p.want || denied.reached() == 0 {
		t.Errorf("without a sandbox: %v, %s", err, out)
	}
}

// path is where programs are looked for.
var path = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/go/bin"}

// lookPath is where a program is, "" if it is not installed.
func lookPath(name string) string {
	for _, dir := range path {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	return ""
}

// serve listens on a port of an address.
func serve(t testing.TB, addr string) *service {
	t.Helper()
	pc, l := ListenBoth(t, addr, 0)
	t.Cleanup(func() {
		pc.Close()
		l.Close()
	})
	return &service{conns: &listener{Listener: l}, packets: &packets{PacketConn: pc}, dir: testenv.Dir(t)}
}

func (s *service) addr() netip.AddrPort { return netip.MustParseAddrPort(s.conns.Addr().String()) }

// reached is how many connections and packets came.
func (s *service) reached() int { return int(s.conns.n.Load() + s.packets.n.Load()) }

// file is the path of a file of the service.
func (s *service) file(name string) string { return filepath.Join(s.dir, name) }

// A listener counts connections.
type listener struct {
	net.Listener
	n atomic.Int32
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

type packets struct {
	net.PacketConn
	n atomic.Int32
}

func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.PacketConn.ReadFrom(b)
	if err == nil {
		p.n.Add(1)
	}
	return n, from, err
}
