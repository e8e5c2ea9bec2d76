//go:build linux

package netpolicy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What random policies are made of: few of everything, so that things meet.
var (
	someHosts    = []string{"a.test", "b.a.test", "c.b.a.test", "evila.test", "d.example", "e"}
	somePrefixes = []string{
		"0.0.0.0/0", "::/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "127.0.0.1", "127.0.0.0/8", "169.254.0.0/16",
		"169.254.169.254", "169.254.169.0/24", "203.0.113.0/24", "203.0.113.7", "203.0.113.0/30", "198.51.100.1",
		"203.0.113.255", "255.255.255.255", "192.168.0.0/16", "128.0.0.0/1", "8.0.0.0/6",
		"2001:db8::/32", "2001:db8::1", "::1", "fd00::/8", "fd00:ec2::254", "fc00::/7", "64:ff9b::/96", "64:ff9b::a00:0/104",
		"2002::/16", "2002:7f00:1::/48", "2001::/32", "64:ff9b::cb00:7107", "8000::/1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	}
	somePorts = []string{"", ":80", ":443", ":80-443", ":1-1024", ":444-1000", ":65535", ":1-65535", ":53"}
	someAddrs = []string{
		"10.1.2.3", "10.1.2.4", "10.2.0.0", "127.0.0.1", "127.9.9.9", "169.254.169.254", "169.254.1.1", "203.0.113.0", "203.0.113.3",
		"203.0.113.4", "203.0.113.7", "203.0.113.255", "203.0.114.0", "203.0.112.255", "198.51.100.1", "198.51.100.2", "0.0.0.0", "255.255.255.255",
		"192.168.1.1", "172.16.0.1", "172.32.0.1", "224.0.0.1", "100.64.0.1", "8.8.8.8",
		"::", "::1", "2001:db8::1", "2001:db8::2", "fd00::1", "fd00:ec2::254", "fe80::1", "ff02::1", "64:ff9b::a01:203", "64:ff9b::cb00:7107",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:cb00:7107::1", "2002:a01:203::1", "2001:0:1::1", "::ffff:10.1.2.3",
		"::ffff:203.0.113.7", "::ffff:127.0.0.1", "::7f00:1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2a00::1",
	}
	someProtos = []Proto{TCP, UDP, TCP, UDP, AnyProto, 132}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func randomPolicy(t testing.TB, r *rand.Rand) Policy {
	var texts []string
	for range r.IntN(8) {
		host := "*"
		switch r.IntN(8) {
		case 0:
		case 1, 2:
			host = pick(r, someHosts)
		case 3:
			host = "*." + pick(r, someHosts)
		default:
			host = "[" + pick(r, somePrefixes) + "]"
			if netip.MustParsePrefix(withBits(host[1 : len(host)-1])).Addr().Is4() {
				host = host[1 : len(host)-1]
			}
		}
		texts = append(texts, pick(r, []string{"", "tcp:", "udp:"})+host+pick(r, somePorts))
	}
	p, err := ParsePolicy(texts...)
	if err != nil {
		t.Fatal(err)
	}
	p.HostAddrs = []netip.Addr{} // not this host's
	for range r.IntN(3) {
		p.HostAddrs = append(p.HostAddrs, netip.MustParseAddr(pick(r, someAddrs)))
	}
	return p
}

func withBits(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).String()
	}
	return s
}

// mirror is a Sink that keeps what it is told, and decides from that alone, as a program in
// the kernel does.
type mirror struct {
	t       testing.TB
	sets    []map[PortPrefix]bool
	blocks  map[netip.Prefix]uint32
	learned map[netip.Addr]uint32
}

func asPrefixes(s Set) map[PortPrefix]bool {
	m := make(map[PortPrefix]bool)
	for p := range s.Prefixes() {
		m[p] = true
	}
	return m
}

func (m *mirror) Switch(g *Generation) error {
	m.sets = nil
	for _, s := range g.Sets {
		m.sets = append(m.sets, asPrefixes(s))
	}
	m.blocks = make(map[netip.Prefix]uint32)
	for _, b := range g.Blocks {
		m.blocks[b.Prefix] = b.Set
	}
	m.learned = make(map[netip.Addr]uint32)
	for a, id := range g.Learned {
		m.learned[a] = id
	}
	return nil
}

func (m *mirror) AddSet(id uint32, s Set) error {
	if int(id) != len(m.sets) {
		m.t.Errorf("set %d was added when there were %d", id, len(m.sets))
	}
	m.sets = append(m.sets, asPrefixes(s))
	return nil
}

func (m *mirror) Learn(a netip.Addr, id uint32) error {
	if int(id) >= len(m.sets) || id == 0 {
		m.t.Errorf("%v was given set %d of %d", a, id, len(m.sets))
	}
	m.learned[a] = id
	return nil
}

func (m *mirror) Forget(a netip.Addr) error {
	delete(m.learned, a)
	return nil
}

func (m *mirror) allows(p Proto, dst netip.AddrPort) bool {
	addr := dst.Addr().Unmap()
	in := func(id uint32) bool {
		for bits := range 17 {
			mask := uint16(0xffff) << (16 - bits)
			if m.sets[id][PortPrefix{p, dst.Port() & mask, uint8(bits)}] {
				return true
			}
		}
		return false
	}
	if id, ok := m.learned[addr]; ok {
		return in(id)
	}
	for bits := addr.BitLen(); bits >= 0; bits-- {
		prefix, _ := addr.Prefix(bits)
		if id, ok := m.blocks[prefix]; ok {
			return in(id)
		}
	}
	m.t.Errorf("no block holds %v", addr)
	return false
}

// clocked is a table with a clock of the test's, and a sink.
func clocked(t *testing.T, p Policy) (table *Table, now *time.Duration, sink *mirror) {
	t.Helper()
	table, err := NewTable(p)
	if err != nil {
		t.Fatal(err)
	}
	now = new(time.Duration)
	table.clock = func() time.Duration { return *now }
	sink = &mirror{t: t}
	if err := table.Attach(sink); err != nil {
		t.Fatal(err)
	}
	return table, now, sink
}

// TestTableIsTheModel drives tables with random policies, names and times, and compares
// them, and what a sink was told, with the model. With NSRUN_LONG there are more of them.
func TestTableIsTheModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	allowed, policies := 0, 80
	if os.Getenv("NSRUN_LONG") != "" {
		policies = 5000
	}
	for range policies {
		p := randomPolicy(t, r)
		table, now, sink := clocked(t, p)
		until := make(map[netip.Addr]map[string]time.Duration)
		for range 12 {
			switch r.IntN(4) {
			case 0:
				p = randomPolicy(t, r)
				if err := table.Update(p); err != nil {
					t.Fatal(err)
				}
			case 1:
				*now += time.Duration(r.IntN(200)) * time.Second
				table.Expire()
			default:
				name := pick(r, someHosts)
				a := Answer{netip.MustParseAddr(pick(r, someAddrs)), time.Duration(r.IntN(200)) * time.Second}
				if r.IntN(8) == 0 {
					a.TTL = Always
				}
				told, err := table.Learn(name, []Answer{a})
				if got, want := err == nil, p.AllowsName(name); got != want {
					t.Fatalf("%v: Learn(%s) = %v", p.Rules, name, err)
				}
				if len(told) == 0 {
					break
				}
				addr := a.Addr.Unmap()
				if until[addr] == nil {
					until[addr] = make(map[string]time.Duration)
				}
				end := a.TTL
				if end != Always {
					end += *now + Grace
				}
				until[addr][name] = max(until[addr][name], end)
			}
			for range 60 {
				proto, addr := pick(r, someProtos), netip.MustParseAddr(pick(r, someAddrs))
				dst := netip.AddrPortFrom(addr, pick(r, []uint16{0, 1, 53, 79, 80, 81, 443, 444, 1000, 1001, 65534, 65535}))
				var names []string
				for name, end := range until[addr.Unmap()] {
					if *now < end {
						names = append(names, name)
					}
				}
				want := p.Allows(proto, dst, names...)
				v := table.Decide(proto, dst)
				if v.Allowed != want {
					t.Fatalf("%v own %v: Decide(%v, %v) with names %v = %+v, want %v", p.Rules, p.HostAddrs, proto, dst, names, v, want)
				}
				if got := sink.allows(proto, dst); got != want {
					t.Fatalf("%v own %v: the sink allows %v %v with names %v: %v, want %v", p.Rules, p.HostAddrs, proto, dst, names, got, want)
				}
				if (v.Host != "") != (len(names) > 0) || v.Host != "" && !slices.Contains(names, v.Host) {
					t.Fatalf("%v has the name %q, valid are %v", dst, v.Host, names)
				}
				if _, what := special(addr.Unmap(), p.HostAddrs); v.Special != what {
					t.Fatalf("%v own %v: %v is special: %q, want %q", p.Rules, p.HostAddrs, addr, v.Special, what)
				}
				if want {
					allowed++
				}
			}
		}
	}
	if allowed < 500 {
		t.Errorf("only %d of the decisions were yes", allowed)
	}
}

// TestAlways: a name that is learned for always outlives every time to live, and goes and
// comes with its rule.
func TestAlways(t *testing.T) {
	with := MustParse("a.test:80", "b.test:80")
	table, now, sink := clocked(t, with)
	static, other := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	learn := func(name string, a Answer) {
		t.Helper()
		if _, err := table.Learn(name, []Answer{a}); err != nil {
			t.Fatal(err)
		}
	}
	learn("a.test", Answer{static, Always})
	learn("a.test", Answer{static, time.Minute}) // as it is when it is asked for, too
	learn("b.test", Answer{static, time.Minute})
	learn("a.test", Answer{other, maxTTL})
	for _, step := range []struct {
		after          time.Duration
		policy         Policy
		static, others bool
	}{
		{0, with, true, true},
		{maxTTL, with, true, true},
		{Grace + time.Minute, with, true, false},
		{time.Hour, MustParse("b.test:80"), false, false},
		{3 * maxTTL, MustParse("*.test:80"), true, false},
		{3 * maxTTL, with, true, false},
	} {
		*now += step.after
		table.Expire()
		if err := table.Update(step.policy); err != nil {
			t.Fatal(err)
		}
		for addr, want := range map[netip.Addr]bool{static: step.static, other: step.others} {
			at := netip.AddrPortFrom(addr, 80)
			if got := table.Decide(TCP, at).Allowed; got != want || sink.allows(TCP, at) != want {
				t.Errorf("after %v with %v: %v: %v, the sink %v", *now, step.policy.Rules, addr, got, sink.allows(TCP, at))
			}
		}
	}
	if names := table.Names(static); len(names) != 1 || names[0] != "a.test" {
		t.Errorf("names: %q", names)
	}
	if len(table.due) != 0 {
		t.Errorf("still due: %v", table.due)
	}
}

// TestMetadata: what hands out a machine's credentials is opened by its own address, and by
// no range around it.
func TestMetadata(t *testing.T) {
	around, err := NewTable(MustParse("*", "0.0.0.0/0", "::/0", "100.64.0.0/10", "169.254.0.0/16", "192.0.0.0/24", "fd00::/8"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"100.100.100.200", "168.63.129.16", "169.254.169.254", "169.254.170.2", "169.254.170.23", "192.0.0.192",
		"fd00:ec2::23", "fd00:ec2::254", "fd20:ce::254",
		"64:ff9b::a9fe:aa17", "2002:a9fe:aa17::",
	} {
		addr := netip.MustParseAddr(text)
		if v := around.Decide(TCP, netip.AddrPortFrom(addr, 80)); v.Allowed || v.Special != "metadata" {
			t.Errorf("%s: %+v", text, v)
		}
		alone, err := NewTable(Policy{Rules: []Rule{{Prefix: netip.PrefixFrom(addr, addr.BitLen())}}})
		if err != nil {
			t.Fatal(err)
		}
		if v := alone.Decide(TCP, netip.AddrPortFrom(addr, 80)); !v.Allowed {
			t.Errorf("%s by its own address: %+v", text, v)
		}
	}
	// The control: what is next to them in the ranges is open.
	for _, text := range []string{"169.254.170.22", "169.254.170.24", "fd00:ec2::22", "fd00:ec2::253"} {
		if v := around.Decide(TCP, netip.AddrPortFrom(netip.MustParseAddr(text), 80)); !v.Allowed {
			t.Errorf("%s: %+v", text, v)
		}
	}
}

// TestSinkFails: what a sink did not take is not told, and tried again.
func TestSinkFails(t *testing.T) {
	table, err := NewTable(MustParse("a.test:80"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Duration(0)
	table.clock = func() time.Duration { return now }
	sink := &broken{mirror: mirror{t: t}, err: errors.New("broken")}
	if err := table.Attach(sink); err != sink.err && !errors.Is(err, sink.err) {
		t.Fatalf("Attach: %v", err)
	}
	sink.err = nil
	if err := table.Attach(sink); err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr("203.0.113.1")
	answers := []Answer{{addr, time.Second}}
	sink.err = errors.New("broken")
	if told, err := table.Learn("a.test", answers); !errors.Is(err, sink.err) || told != nil {
		t.Fatalf("Learn = %v, %v", told, err)
	}
	if err := table.Update(MustParse("*")); !errors.Is(err, sink.err) {
		t.Fatalf("Update: %v", err)
	}
	if table.Decide(TCP, netip.MustParseAddrPort("198.51.100.1:80")).Allowed {
		t.Error("the policy is the new one after a failed Update")
	}
	sink.err = nil
	if told, err := table.Learn("a.test", answers); err != nil || len(told) != 1 || sink.learned[addr] == 0 {
		t.Fatalf("Learn = %v, %v; the sink knows %v", told, err, sink.learned)
	}
	sink.err = errors.New("broken")
	now += Grace + 2*time.Second
	table.Expire()
	if table.Decide(TCP, netip.AddrPortFrom(addr, 80)).Allowed {
		t.Error("allowed after the end")
	}
	if sink.learned[addr] == 0 {
		t.Fatal("the sink did not fail")
	}
	sink.err = nil
	now += 2 * time.Second
	table.Expire()
	if sink.learned[addr] != 0 || len(table.known) != 0 {
		t.Error("Forget is not called again after it failed once")
	}
	now += 10 * time.Second
	table.Expire()
	if len(table.due) != 0 {
		t.Errorf("still due: %v", table.due)
	}
}

type broken struct {
	mirror
	err error
}

func (b *broken) Switch(g *Generation) error {
	if b.err != nil {
		return b.err
	}
	return b.mirror.Switch(g)
}

func (b *broken) Learn(a netip.Addr, id uint32) error {
	if b.err != nil {
		return b.err
	}
	return b.mirror.Learn(a, id)
}

func (b *broken) Forget(a netip.Addr) error {
	if b.err != nil {
		return b.err
	}
	return b.mirror.Forget(a)
}

// TestUpdateIsAtomic: while the rules change between two policies that both allow a port, no question about that port
// is refused.
func TestUpdateIsAtomic(t *testing.T) {
	one, two := MustParse("a.test:80", "203.0.113.0/24:443"), MustParse("*.test", "203.0.113.1:443")
	table, err := NewTable(one)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr("198.51.100.1")
	if _, err := table.Learn("a.test", []Answer{{addr, time.Hour}}); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				if !table.Decide(TCP, netip.AddrPortFrom(addr, 80)).Allowed ||
					!table.Decide(TCP, netip.MustParseAddrPort("203.0.113.1:443")).Allowed {
					t.Error("no, in between")
					return
				}
				if table.Decide(TCP, netip.MustParseAddrPort("10.0.0.1:443")).Allowed {
					t.Error("yes, in between")
					return
				}
			}
		})
	}
	for i := range 300 {
		if err := table.Update([]Policy{one, two}[i%2]); err != nil {
			t.Fatal(err)
		}
		if _, err := table.Learn("a.test", []Answer{{addr, time.Hour}, {netip.AddrFrom4([4]byte{198, 51, 101, byte(i)}), time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// TestFull: a table learns so many addresses, and then says so.
func TestFull(t *testing.T) {
	table := bigTable(t, 10, MaxLearned)
	more := []Answer{{netip.MustParseAddr("2001:db8::1"), time.Hour}}
	if _, err := table.Learn("n1.test", more); !errors.Is(err, ErrFull) {
		t.Errorf("Learn: %v", err)
	}
	now := 2*time.Hour + Grace
	table.clock = func() time.Duration { return now }
	if told, err := table.Learn("n1.test", more); err != nil || len(told) != 1 {
		t.Errorf("after all have expired: %v, %v", told, err)
	}
}

// TestTooManyRanges: the worst that rules can be is refused.
func TestTooManyRanges(t *testing.T) {
	var p Policy
	for i := range 3000 {
		p.Rules = append(p.Rules,
			Rule{Any: true, First: uint16(2*i + 1), Last: uint16(2*i + 1)},
			Rule{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{8, 8, byte(i >> 8), byte(i)}), 32), First: uint16(20000 + 2*i), Last: uint16(20000 + 2*i)})
	}
	if _, err := NewTable(p); !errors.Is(err, errRanges) {
		t.Errorf("NewTable: %v", err)
	}
}

func bigTable(tb testing.TB, rules, addrs int) *Table {
	tb.Helper()
	var p Policy
	for i := range rules {
		r := Rule{Host: fmt.Sprintf("n%d.test", i), First: uint16(1 + i%1000), Last: uint16(2000 + i%1000)}
		if i%2 == 1 {
			r = Rule{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), 0}), 24), First: 443, Last: 443}
		}
		if i == 1 {
			r = Rule{Host: "n1.test"}
		}
		p.Rules = append(p.Rules, r)
	}
	table, err := NewTable(p)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range addrs {
		a := Answer{netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)}), time.Hour}
		if _, err := table.Learn(fmt.Sprintf("n%d.test", i%min(rules, 1000)/2*2), []Answer{a}); err != nil {
			tb.Fatal(err)
		}
	}
	return table
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ rules, addrs, used int }{{10, 10, 10}, {10000, 100000, 10}, {10000, 100000, 100000}} {
		b.Run(fmt.Sprintf("rules=%d/addrs=%d/used=%d", size.rules, size.addrs, size.used), func(b *testing.B) {
			table := bigTable(b, size.rules, size.addrs)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i*1103515245 + 12345) & 0x7fffffff
				n := i % size.used
				if !table.Decide(TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{20, byte(n >> 16), byte(n >> 8), byte(n)}), 1500)).Allowed {
					b.Fatal(n)
				}
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, size := range []struct{ rules, addrs int }{{10, 10}, {10000, 100000}} {
		b.Run(fmt.Sprintf("rules=%d/addrs=%d", size.rules, size.addrs), func(b *testing.B) {
			table := bigTable(b, size.rules, size.addrs)
			for b.Loop() {
				if err := table.Update(table.Policy()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func addrPort(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

// TestNilHostAddrs: a policy without the host's addresses opens none of them.
func TestNilHostAddrs(t *testing.T) {
	p := MustParse("*", "name.test", "198.51.100.0/24:1", "198.51.100.7:2")
	for _, c := range []struct {
		port  uint16
		names []string
		want  bool
	}{{80, nil, false}, {80, []string{"name.test"}, false}, {1, nil, false}, {2, nil, true}} {
		at := netip.AddrPortFrom(netip.MustParseAddr("198.51.100.7"), c.port)
		if got := p.Allows(TCP, at, c.names...); got != c.want {
			t.Errorf("port %d of an unknown address: %t", c.port, got)
		}
		known := p
		known.HostAddrs = []netip.Addr{}
		if !known.Allows(TCP, at, c.names...) {
			t.Errorf("port %d of another host: denied", c.port)
		}
	}
	table, err := NewTable(p)
	if err != nil {
		t.Fatal(err)
	}
	own, err := OwnAddrs()
	if err != nil || own == nil || table.Policy().HostAddrs == nil {
		t.Errorf("own addresses %v, %v, in the table %v", own, err, table.Policy().HostAddrs)
	}
	for _, addr := range own {
		if table.Decide(TCP, netip.AddrPortFrom(addr, 80)).Allowed {
			t.Errorf("%s of this host is open", addr)
		}
	}
}
