//go:build linux

package cgroup_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/nsexec"
)

// TestDecisions: each decision is reported once, with its count and the process that asked.
func TestDecisions(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	var got decisions
	e := enforce(t, p, newTable(t, "tcp:203.0.113.1:80"), cgroup.Options{Decided: got.add})
	b := newBox(t, e)
	began := time.Now()
	for range 100 {
		b.want("tcp 203.0.113.1:80", "yes")
		b.want("tcp 203.0.113.2:80", "connection refused")
	}
	b.want("udp 203.0.113.1:80", "operation not permitted")
	b.want("bind 127.0.0.1:8080", "operation not permitted")
	b.want("open mptcp", "operation not permitted")
	b.want("join 239.66.66.1", "operation not permitted")
	b.want("join ff15::66:1", "operation not permitted")
	b.want("set", "yes")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	seconds := int(time.Since(began) / time.Second)
	want := []struct {
		hook    cgroup.Hook
		dst     string
		allowed bool
		want    uint64
	}{
		{cgroup.Connect, "203.0.113.1:80", true, 100},
		{cgroup.Connect, "203.0.113.2:80", false, 100},
		{cgroup.Send, "203.0.113.1:80", false, 1},
		{cgroup.Bind, "127.0.0.1:8080", false, 1},
		{cgroup.Create, "[::]:0", false, 1},
		{cgroup.Join, "239.66.66.1:0", false, 2},
		{cgroup.Join, "[ff15::66:1]:0", false, 2},
	}
	for _, d := range want {
		if n := got.count(d.hook, d.dst, d.allowed); n != d.want {
			t.Errorf("%v %s, allowed %t: reported %d times, want %d", d.hook, d.dst, d.allowed, n, d.want)
		}
	}
	// Each is told at first, once a second if it is repeated, and at the end.
	if most := len(want) * (2 + seconds); len(got.list) > most {
		t.Errorf("told in %d pieces, more than %d", len(got.list), most)
	}
	if got.list[0].PID == 0 || got.list[0].Proto != netpolicy.TCP || got.list[0].Time.IsZero() {
		t.Errorf("the first decision is %+v", got.list[0])
	}
}

// TestFlood: a process that asks ever more questions hides no reports of others, and does not overwhelm the reader.
func TestFlood(t *testing.T) {
	leaks(t)
	p := load(t)
	var got decisions
	e := enforce(t, p, newTable(t), cgroup.Options{Decided: got.add})
	b := newBox(t, e)
	const many = 3000
	for i := range many {
		b.want(fmt.Sprintf("udp 203.0.%d.%d:53", i>>8, i&255), "operation not permitted")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	told := uint64(0)
	for _, d := range got.list {
		told += d.Count
	}
	if told == 0 || told+e.Lost() != many {
		t.Errorf("%d reported and %d lost of %d", told, e.Lost(), many)
	}
}

// TestAllowAll: everything that is asked for is allowed, and told.
func TestAllowAll(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	var got decisions
	e := enforce(t, p, newTable(t), cgroup.Options{AllowAll: true, Decided: got.add})
	b := newBox(t, e)
	b.want("tcp 203.0.113.1:80", "yes")
	b.want("udp 2001:db8::1:80", "yes")
	b.want("udp-connect 203.0.113.1:80", "yes")
	b.want("connected 203.0.113.1:443", "yes") // nothing is sent
	b.want("bind 0.0.0.0:8080", "operation not permitted")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []cgroup.Hook{cgroup.Connect, cgroup.Send} {
		if n := got.count(hook, "203.0.113.1:80", true); n != 1 {
			t.Errorf("%v: told %d times", hook, n)
		}
	}
	if n := got.count(cgroup.Connect, "203.0.113.1:443", true); n != 0 {
		t.Errorf("a socket that sent nothing was reported %d times", n)
	}
}

// TestResolver: the resolver's address and port are allowed too, and never reported.
func TestResolver(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 53)
	var got decisions
	e := enforce(t, p, newTable(t), cgroup.Options{Resolver: netip.MustParseAddrPort("127.0.0.2:53"), Decided: got.add})
	b := newBox(t, e)
	for _, how := range []string{"tcp", "udp", "udp-connect", "udp-mapped", "tcp-mapped"} {
		b.want(how+" 127.0.0.2:53", "yes")
	}
	b.want("tcp 127.0.0.1:53", "connection refused")
	b.want("udp 127.0.0.1:53", "operation not permitted")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if n := got.count(cgroup.Connect, "127.0.0.2:53", true) + got.count(cgroup.Send, "127.0.0.2:53", true); n != 0 {
		t.Errorf("told %d times", n)
	}
}

// TestOwnServers: servers inside can be reached from inside, and from nowhere else.
func TestOwnServers(t *testing.T) {
	leaks(t)
	p := load(t)
	one := newBox(t, enforce(t, p, newTable(t), cgroup.Options{}))
	two := newBox(t, enforce(t, p, newTable(t), cgroup.Options{}))
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6"} {
		one.want("own "+kind, "yes")
	}
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		server := newBox(t, nil) // the control
		if addr := server.do("listen " + at); !reached(addr, testenv.Patience) {
			t.Errorf("the control %s cannot be reached", addr)
		}
		addr := one.do("listen " + at)
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddrPort(addr).Port()).String()
		if reached(to, patience) {
			t.Errorf("the host reaches %s", to)
		}
		two.want("tcp "+to, "connection refused")
		one.want("", "yes") // its end
	}
}

// TestSharedPort: no command gets what is sent to a UDP server of the host that lets others share its port.
func TestSharedPort(t *testing.T) {
	leaks(t)
	p := load(t)
	b := newBox(t, enforce(t, p, newTable(t, "*"), cgroup.Options{}))
	host := newBox(t, nil) // the control
	for option, number := range sharing {
		for _, at := range []string{"0.0.0.0:0", "[::]:0"} {
			a := netip.MustParseAddrPort(at)
			s, err := socket(a, unix.SOCK_DGRAM)
			if err == nil {
				err = errors.Join(unix.SetsockoptInt(s, unix.SOL_SOCKET, number, 1), unix.Bind(s, sockaddr(a)))
			}
			if err != nil {
				t.Fatal(err)
			}
			share := "share " + option + " " + local(s).String()
			switch got := host.do(share); got {
			case "yes":
				b.want(share, "address already in use")
			case "protocol not available":
				testenv.Skip(t, "port range", "the kernel has no IP_LOCAL_PORT_RANGE")
			default:
				t.Errorf("the control: %s: %s", share, got)
			}
			unix.Close(s)
		}
	}
}

// reached says whether a server answers within a time.
func reached(addr string, within time.Duration) bool {
	d := net.Dialer{Timeout: within}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	answer, _ := io.ReadAll(c)
	return string(answer) == "answer\n"
}

// TestPublish: a published port can be bound, and reached from this host.
func TestPublish(t *testing.T) {
	leaks(t)
	p := load(t)
	e := enforce(t, p, newTable(t), cgroup.Options{Publish: []uint16{8080}})
	b := newBox(t, e)
	b.want("bind 0.0.0.0:8081", "operation not permitted")
	b.want("bind [::]:8081", "operation not permitted")
	b.want("bind 127.0.0.1:0", "yes")
	if got := b.do("listen 0.0.0.0:8080"); got != "0.0.0.0:8080" {
		t.Fatalf("listen: %s", got)
	}
	if !reached("127.0.0.1:8080", testenv.Patience) {
		t.Error("the published port cannot be reached")
	}
	b.want("", "yes")
	newBox(t, enforce(t, p, newTable(t), cgroup.Options{})).want("bind 0.0.0.0:8080", "operation not permitted")
	newBox(t, nil).want("bind 0.0.0.0:8081", "yes")
}

// afterwards does something with a rule, and again when that has gone, and then something new.
func afterwards(t *testing.T, first, again, fresh string) {
	t.Helper()
	leaks(t)
	p := load(t)
	serve(t, 80)
	table := newTable(t, "203.0.113.1:80")
	b := newBox(t, enforce(t, p, table, cgroup.Options{}))
	b.want(first, "yes")
	if err := table.Update(policy(t)); err != nil {
		t.Fatal(err)
	}
	b.want(again, "yes")
	b.want(fresh, "connection refused")
}

// TestEstablished: a connection stays when its rule goes, and no new one is made.
func TestEstablished(t *testing.T) {
	afterwards(t, "connection open 203.0.113.1:80", "connection use", "tcp 203.0.113.1:80")
}

// TestUnused: a UDP socket that was connected while a rule was there may send when it has gone, though it
// has not sent before. With the broker it may not.
func TestUnused(t *testing.T) {
	afterwards(t, "connected 203.0.113.1:80", "connected use", "udp-connect 203.0.113.1:80")
}

// TestProbes: C libraries connect UDP sockets to see which address they would have. That is let through and
// not told; what is sent then is decided and told.
func TestProbes(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 443)
	var got decisions
	table := newTable(t, "tcp:203.0.113.1:443", "tcp:[2001:db8::1]:443", "tcp:a.test:443", "203.0.113.4")
	if _, err := table.Learn("a.test", []netpolicy.Answer{{Addr: netip.MustParseAddr("203.0.113.3"), TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	e := enforce(t, p, table, cgroup.Options{Decided: got.add})
	b := newBox(t, e)
	for _, addr := range []string{
		"203.0.113.1:0", "203.0.113.1:443", "[2001:db8::1]:0", "[2001:db8::1]:443", "203.0.113.3:443", "203.0.113.9:0", "[2001:db8::9]:0", "203.0.113.4:0",
	} {
		b.want("connected "+addr, "yes")
	}
	b.want("udp-connect 203.0.113.4:443", "yes")
	denied := []string{"203.0.113.1:80", "[2001:db8::1]:80", "203.0.113.3:80", "203.0.113.9:443", "[2001:db8::9]:443"}
	for _, addr := range denied {
		b.want("connected "+addr, "connection refused")
	}
	sent := []string{"203.0.113.1:443", "[2001:db8::1]:443", "203.0.113.9:0"}
	for _, addr := range sent {
		b.want("udp-connect "+addr, "operation not permitted")
	}
	b.want("udp 203.0.113.1:443", "operation not permitted")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range denied {
		if n := got.count(cgroup.Connect, addr, false); n != 1 {
			t.Errorf("connecting to %s was reported %d times", addr, n)
		}
	}
	for _, addr := range sent {
		if n := got.count(cgroup.PacketOut, addr, false); n != 1 {
			t.Errorf("sending to %s was reported %d times", addr, n)
		}
	}
	if want := len(denied) + len(sent) + 2; len(got.list) != want {
		t.Errorf("%d reported, want %d: %v", len(got.list), want, got.list)
	}
}

// TestInherited: a socket that was made outside reaches what it reached there, doc.go says so. One that is
// made inside does not.
func TestInherited(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	e := enforce(t, p, newTable(t), cgroup.Options{})
	s, err := socket(netip.MustParseAddrPort("203.0.113.1:80"), unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(s), "socket")
	defer f.Close()
	b := newBox(t, e, f)
	b.want("tcp 203.0.113.1:80", "connection refused")
	b.want("inherited 203.0.113.1:80", "yes")
}

// TestExpired: what was learned is closed when its time is over, though no resolver is there to say so.
func TestExpired(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80, 81, 82)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, "a.test:80", "203.0.113.1:81", "203.0.113.0/24:82")
		e := enforce(t, p, table, cgroup.Options{})
		b := newPlain(t, e)
		// By a rule for one address, for others, and for none.
		ports := func(addr, by80, by81, by82 string) {
			t.Helper()
			b.want("tcp "+addr+":80", by80)
			b.want("tcp "+addr+":81", by81)
			b.want("tcp "+addr+":82", by82)
		}
		const yes, no = "yes", "connection refused"
		addrs := []string{"203.0.113.1", "203.0.113.2"}
		ports(addrs[0], no, yes, yes)
		ports(addrs[1], no, no, yes)
		for _, addr := range addrs {
			if _, err := table.Learn("a.test", []netpolicy.Answer{{Addr: netip.MustParseAddr(addr), TTL: time.Minute}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute + netpolicy.Grace - time.Second) // nobody waits: the time is synctest's
		ports(addrs[0], yes, yes, yes)
		ports(addrs[1], yes, no, yes)
		// Other rules know the address, too.
		if err := table.Update(policy(t, "a.test:80", "203.0.113.1:82")); err != nil {
			t.Fatal(err)
		}
		ports(addrs[0], yes, no, yes)
		ports(addrs[1], yes, no, no)
		time.Sleep(3 * time.Second) // of synctest, too
		ports(addrs[0], no, no, yes)
		ports(addrs[1], no, no, no)
	})
}

// newPlain is a box without a sandbox, in the cgroup of an enforcer.
func newPlain(t testing.TB, e *cgroup.Enforcer) *box {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), helperEnv+"=try", "GODEBUG=asyncpreemptoff=1")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(e.Cgroup().Fd()), Pdeathsig: syscall.SIGKILL}
	b := &box{t: t}
	if b.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestOptions: packets with IP options go nowhere; they may have another way to go.
func TestOptions(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	b := newBox(t, enforce(t, p, newTable(t, "203.0.113.1:80"), cgroup.Options{}))
	b.want("udp-connect 203.0.113.1:80", "yes")
	b.want("options 203.0.113.1:80", "operation not permitted")
	newBox(t, nil).want("options 203.0.113.1:80", "yes")
}

// TestKinds: what no program needs cannot be made, whatever the kernel has of it.
func TestKinds(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t)
	b := newBox(t, enforce(t, p, newTable(t, "*"), cgroup.Options{}))
	host := newBox(t, nil)
	opened := 0
	for _, kind := range []string{"icmp", "mptcp", "vsock", "udplite", "netlink", "raw", "packet"} {
		if got := b.do("open " + kind); got == "yes" {
			t.Errorf("%s can be opened", kind)
		}
		if host.do("open "+kind) == "yes" {
			opened++
		}
	}
	if opened < 3 {
		t.Errorf("the control opens only %d", opened)
	}
	b.want("open route", "yes")
	// A pair of sockets reaches as far, where the family has pairs. The kernel has none of netlink.
	host.want("open pair-of-netlink", unix.EOPNOTSUPP.Error())
	b.want("open pair-of-netlink", unix.EPROTONOSUPPORT.Error())
	b.want("open pair-of-packet", unix.EAFNOSUPPORT.Error())
	b.want("open pair-of-unix", "yes")
	t.Run("abstract", func(t *testing.T) {
		needScopes(t)
		if got := host.do("open abstract"); got != "yes" {
			t.Errorf("the control: %s", got)
		}
		if got := b.do("open abstract"); got == "yes" {
			t.Error("the abstract socket can be connected to")
		}
	})
}

// TestPassed: a socket is useless to processes without a sandbox.
func TestPassed(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	e := enforce(t, p, newTable(t, "203.0.113.1:80"), cgroup.Options{})
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	defer ours.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := nsexec.Command(exe)
	c.Env = append(nsexec.BaseEnv(), helperEnv+"=pass", "GORACE=atexit_sleep_ms=0")
	c.Mounts = hostFiles
	c.Share, c.Cgroup = nsexec.Net, e.Cgroup()
	c.ExtraFiles = []*os.File{theirs}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	for _, try := range []struct {
		addr string
		want error
	}{{"203.0.113.2:80", unix.ECONNREFUSED}, {"203.0.113.1:80", unix.ECONNREFUSED}} {
		fd, err := nettest.Receive(ends[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(fd, sockaddr(netip.MustParseAddrPort(try.addr))); !errors.Is(err, try.want) {
			t.Errorf("connect to %s: %v, want %v", try.addr, err, try.want)
		}
		unix.Close(fd)
	}
}

// TestPassedBetween: a UDP socket that another sandbox connected reaches what both may.
func TestPassedBetween(t *testing.T) {
	leaks(t)
	p := load(t)
	serve(t, 80)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	table := newTable(t, "203.0.113.1:80", "203.0.113.3:80")
	maker := newBox(t, enforce(t, p, table, cgroup.Options{}), ours)
	other := newBox(t, enforce(t, p, newTable(t, "203.0.113.2:80", "203.0.113.3:80"), cgroup.Options{}), theirs)
	for _, try := range []struct{ addr, adopt, use string }{
		{"203.0.113.1:80", "connection refused", "destination address required"},
		{"203.0.113.2:80", "yes", "operation not permitted"},
		{"203.0.113.3:80", "yes", "yes"},
	} {
		maker.want("pass", "yes")
		other.want("adopt "+try.addr, try.adopt)
		maker.want("connected use", try.use)
		other.want("connected use", try.use)
	}
	// That the other one may still go there is not the maker's affair.
	if err := table.Update(policy(t)); err != nil {
		t.Fatal(err)
	}
	maker.want("connected use", "operation not permitted")
}

// TestCloseKills: nothing in the cgroup outlives the enforcer.
func TestCloseKills(t *testing.T) {
	leaks(t)
	p := load(t)
	e := enforce(t, p, newTable(t), cgroup.Options{})
	c := nsexec.Command("sh", "-c", "sleep 1000 & sleep 1000 & wait")
	c.Mounts = hostFiles
	c.Share, c.Cgroup = nsexec.Net, e.Cgroup()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
}

// TestProgramsInUse: programs that sandboxes need are not closed.
func TestProgramsInUse(t *testing.T) {
	leaks(t)
	p := load(t)
	e := enforce(t, p, newTable(t), cgroup.Options{})
	if err := p.Close(); err == nil {
		t.Error("they were closed")
	}
	serve(t, 80)
	newBox(t, e).want("tcp 203.0.113.1:80", "connection refused")
}

// TestStale: the next process removes what a killed process left, and nothing of one that lives.
func TestStale(t *testing.T) {
	leaks(t)
	testenv.NeedRoot(t)
	alone(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		c := exec.Command(exe)
		c.Env = append(os.Environ(), helperEnv+"=load")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "loaded\n" {
			t.Fatal(line, err)
		}
		return c
	}
	killed, alive := start(), start()
	_ = killed.Process.Kill()
	_ = killed.Wait()
	before := groups(t)
	p := load(t)
	after := groups(t)
	if len(after) != len(before) { // one less, and p's
		t.Errorf("before there were %q, after %q", before, after)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if n := len(groups(t)); n != len(before)-1 {
		t.Errorf("%d cgroups are left, want %d", n, len(before)-1)
	}
	_ = alive.Process.Signal(unix.SIGTERM)
	if err := alive.Wait(); err != nil {
		t.Errorf("the other enforcer's process: %v", err)
	}
}

// TestOrphan: killing the process that enforces rules opens nothing.
func TestOrphan(t *testing.T) {
	leaks(t)
	testenv.NeedRoot(t)
	alone(t)
	load(t)
	serve(t, 80)
	before := len(groups(t))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), helperEnv+"=orphan")
	b := &box{t: t}
	if b.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b.out = bufio.NewReader(r)
	c.Stdout, c.Stderr = w, w
	err = c.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		b.want("tcp 203.0.113.1:80", "yes")
		b.want("tcp 203.0.113.2:80", "connection refused")
		b.want("udp 203.0.113.2:80", "operation not permitted")
	}
	check()
	in, err := unix.FcntlInt(b.in.(*os.File).Fd(), unix.F_DUPFD_CLOEXEC, 0) // Wait closes the other one
	if err != nil {
		t.Fatal(err)
	}
	b.in = os.NewFile(uintptr(in), "in")
	_ = c.Process.Kill()
	_ = c.Wait()
	check()
	if n := len(groups(t)); n != before+1 {
		t.Errorf("%d cgroups, want %d", n, before+1)
	}
	b.in.Close()
	_, _ = b.out.ReadString('\n') // its end
	testenv.Eventually(t, "what was left is removed", func() bool {
		q, err := cgroup.Load()
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		return len(groups(t)) == before
	})
}

// alone puts this process in a cgroup of its own until the test ends, because other tests that run at the same time
// make and remove cgroups, too.
func alone(t *testing.T) {
	t.Helper()
	before := ownCgroup(t)
	enter := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
	}
	own := filepath.Join(before, "test-"+strconv.Itoa(os.Getpid()))
	if err := errors.Join(os.Mkdir(own, 0o755), enter(own)); err != nil {
		testenv.Skip(t, "cgroup v2", err.Error())
	}
	t.Cleanup(func() {
		nsexec.Shutdown()
		if err := enter(before); err != nil {
			t.Error(err)
		}
		testenv.Eventually(t, "the cgroup is empty", func() bool { return os.Remove(own) == nil })
	})
}

// groups are our cgroups below this process's own.
func groups(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(ownCgroup(t), "nsrun-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ownCgroup is this process's own.
func ownCgroup(t *testing.T) string {
	t.Helper()
	infos, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(string(own), "0::")
	for line := range strings.Lines(string(infos)) {
		if left, _, ok := strings.Cut(line, " - cgroup2 "); ok {
			return filepath.Join(strings.Fields(left)[4], strings.TrimSpace(at))
		}
	}
	testenv.Skip(t, "cgroup v2", "no cgroup v2 is mounted")
	return ""
}
