//go:build linux

package netpolicy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/nsrun/nsrun/internal/nettest"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
)

func newTable(t testing.TB, rules ...string) *netpolicy.Table {
	t.Helper()
	table, err := netpolicy.NewTable(nettest.Policy(t, rules, nil))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// serve runs a resolver on loopback and returns where; its result comes when it stops.
func serve(t testing.TB, r *netpolicy.Resolver) (address string, stop context.CancelFunc, result <-chan error) {
	t.Helper()
	pc, l := nettest.ListenBoth(t, "127.0.0.1", 0)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, pc, l) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		default:
		}
	})
	return pc.LocalAddr().String(), stop, done
}

func question(name string, typ uint16) *dns.Msg { return new(dns.Msg).SetQuestion(dns.Fqdn(name), typ) }

func TestServe(t *testing.T) {
	testenv.Leaks(t)
	var zone []string
	for i := range 60 {
		zone = append(zone, fmt.Sprintf("big.test. 0 AAAA 2001:db8::%x", i+1))
	}
	up := nettest.StartDNS(t, append(zone, "a.test. 100000 A 203.0.113.1"), nil)
	table := newTable(t, "*.test:443")
	r := &netpolicy.Resolver{Table: table, Upstreams: []netip.AddrPort{up.Addr}, MixCase: true}
	address, stop, result := serve(t, r)

	udp := &dns.Client{}
	m, _, err := udp.Exchange(question("a.test", dns.TypeA), address)
	if err != nil || len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 300 || m.IsEdns0() != nil || !m.RecursionAvailable || m.Authoritative {
		t.Fatalf("%v, %v", m, err)
	}
	if !table.Decide(netpolicy.TCP, netip.MustParseAddrPort("203.0.113.1:443")).Allowed {
		t.Error("the table does not know what was answered")
	}

	// The answer has the name in the same upper and lower case as the question.
	m, _, err = udp.Exchange(question("A.tEsT", dns.TypeA), address)
	if err != nil || len(m.Answer) != 1 || m.Question[0].Name != "A.tEsT." || m.Answer[0].Header().Name != "A.tEsT." {
		t.Errorf("%v, %v", m, err)
	}

	// What does not fit is asked for over TCP; several questions on one connection.
	m, _, err = udp.Exchange(question("big.test", dns.TypeAAAA), address)
	if err != nil || !m.Truncated || len(m.Answer) != 0 {
		t.Errorf("%v, %v", m, err)
	}
	q := question("big.test", dns.TypeAAAA)
	q.SetEdns0(4096, true)
	m, _, err = udp.Exchange(q, address)
	if err != nil || !m.Truncated || m.IsEdns0() == nil {
		t.Errorf("%v, %v", m, err)
	}
	c, err := dns.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		m, _, err := (&dns.Client{Net: "tcp"}).ExchangeWithConn(question("big.test", dns.TypeAAAA), c)
		if err != nil || len(m.Answer) != 60 || m.Answer[0].Header().Ttl != 0 {
			t.Errorf("%v, %v", m, err)
		}
	}

	stop()
	if err := <-result; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, _, err := (&dns.Client{Timeout: 200 * time.Millisecond}).Exchange(question("a.test", dns.TypeA), address); err == nil {
		t.Error("there is an answer after the end")
	}
}

// TestServeBreaks: a socket that is gone ends Serve with an error.
func TestServeBreaks(t *testing.T) {
	testenv.Leaks(t)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pc.Close()
	r := &netpolicy.Resolver{Table: newTable(t)}
	if err := r.Serve(t.Context(), pc, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

// TestUpstreams: the next server is asked where one does not answer.
func TestUpstreams(t *testing.T) {
	good := nettest.StartDNS(t, []string{"a.test. 60 A 203.0.113.1"}, nil)
	bad := nettest.StartDNS(t, nil, []string{"a.test servfail"})
	gone := netip.MustParseAddrPort("127.0.0.1:1")
	for _, c := range []struct {
		servers []netip.AddrPort
		code    int
	}{
		{[]netip.AddrPort{bad.Addr, good.Addr}, dns.RcodeSuccess},
		{[]netip.AddrPort{gone, good.Addr}, dns.RcodeSuccess},
		{[]netip.AddrPort{gone}, dns.RcodeServerFailure},
		{[]netip.AddrPort{bad.Addr}, dns.RcodeServerFailure},
		{nil, dns.RcodeServerFailure},
	} {
		r := &netpolicy.Resolver{Table: newTable(t, "a.test:443"), Upstreams: c.servers}
		if m := answer(t, r, question("a.test", dns.TypeA)); m.Rcode != c.code || len(m.Answer) != map[bool]int{true: 1}[m.Rcode == 0] {
			t.Errorf("%v: %v", c.servers, m)
		}
	}
}

// TestSilentServer: a server that says nothing, or only lies, costs a bounded time.
func TestSilentServer(t *testing.T) {
	up := nettest.StartDNS(t, []string{"lie.test. 60 A 203.0.113.1"}, []string{"silent.test silent", "lie.test wrong-id"})
	r := &netpolicy.Resolver{Table: newTable(t, "*.test:443"), Upstreams: []netip.AddrPort{up.Addr}}
	var wg sync.WaitGroup
	for _, name := range []string{"silent.test", "lie.test"} {
		wg.Go(func() {
			start := time.Now()
			if m := answer(t, r, question(name, dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s: %v", name, m)
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("%s took %v", name, d)
			}
		})
	}
	wg.Wait()
	if r.Table.Decide(netpolicy.TCP, netip.MustParseAddrPort(nettest.Forged+":443")).Allowed {
		t.Error("a forged answer was believed")
	}
}

func answer(t testing.TB, r *netpolicy.Resolver, q *dns.Msg) *dns.Msg {
	t.Helper()
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(r.Answer(t.Context(), b, false)); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestHostilePackets: what is not one plain question gets an error or nothing, and is not
// forwarded.
func TestHostilePackets(t *testing.T) {
	up := nettest.StartDNS(t, []string{"a.test. 60 A 203.0.113.1"}, nil)
	r := &netpolicy.Resolver{Table: newTable(t, "a.test:443"), Upstreams: []netip.AddrPort{up.Addr}}
	change := func(f func(*dns.Msg)) []byte {
		m := question("a.test", dns.TypeA)
		f(m)
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	rr, err := dns.NewRR("a.test. 60 TXT data")
	if err != nil {
		t.Fatal(err)
	}
	plain := change(func(*dns.Msg) {})
	for _, c := range []struct {
		name   string
		packet []byte
		code   int // -1: no answer
	}{
		{"nothing", nil, -1},
		{"short", plain[:11], -1},
		{"half", plain[:len(plain)-5], dns.RcodeFormatError},
		{"a response", change(func(m *dns.Msg) { m.Response = true }), -1},
		{"an update", change(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		{"a notification", change(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented},
		{"truncated", change(func(m *dns.Msg) { m.Truncated = true }), dns.RcodeFormatError},
		{"no question", change(func(m *dns.Msg) { m.Question = nil }), dns.RcodeFormatError},
		{"two questions", change(func(m *dns.Msg) {
			m.Question = append(m.Question, dns.Question{Name: "secret.evil.example.", Qtype: dns.TypeA, Qclass: dns.ClassINET})
		}), dns.RcodeFormatError},
		{"an answer", change(func(m *dns.Msg) { m.Answer = append(m.Answer, rr) }), dns.RcodeFormatError},
		{"an authority", change(func(m *dns.Msg) { m.Ns = append(m.Ns, rr) }), dns.RcodeFormatError},
		{"an addition", change(func(m *dns.Msg) { m.Extra = append(m.Extra, rr) }), dns.RcodeFormatError},
		{"class CH", change(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
		{"class ANY", change(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }), dns.RcodeRefused},
		{"later EDNS", change(func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }), dns.RcodeFormatError},
		{"a NUL", change(func(m *dns.Msg) { m.Question[0].Name = `a.test\000.evil.example.` }), dns.RcodeNameError},
		{"a space", change(func(m *dns.Msg) { m.Question[0].Name = `a\ .test.` }), dns.RcodeNameError},
		{"UTF-8", change(func(m *dns.Msg) { m.Question[0].Name = `b\195\188cher.test.` }), dns.RcodeNameError},
		{"the root", change(func(m *dns.Msg) { m.Question[0].Name = "." }), dns.RcodeNameError},
		{"a dot in a label", change(func(m *dns.Msg) { m.Question[0].Name = `a\.test.` }), dns.RcodeFormatError},
		{"a loop of pointers", append(append([]byte{}, plain[:12]...), 0xc0, 12, 0, 1, 0, 1), dns.RcodeFormatError},
	} {
		b := r.Answer(t.Context(), c.packet, false)
		m := new(dns.Msg)
		switch {
		case c.code == -1 && b != nil:
			t.Errorf("%s: there is an answer: %x", c.name, b)
		case c.code == -1:
		case b == nil:
			t.Errorf("%s: there is no answer", c.name)
		case m.Unpack(b) != nil || m.Rcode != c.code || !m.Response || len(m.Answer) != 0:
			t.Errorf("%s: %v, want code %d", c.name, m, c.code)
		}
	}
	if asked := up.Asked(); len(asked) != 0 {
		t.Errorf("the server was asked for %q", asked)
	}
	// The control, with EDNS and its options, which go no further.
	q := question("a.test", dns.TypeA)
	q.SetEdns0(1232, true)
	q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: dns.EDNS0LOCALSTART, Data: []byte("data")})
	if m := answer(t, r, q); len(m.Answer) != 1 {
		t.Errorf("%v", m)
	}
}

// FuzzAnswer: no packet makes the resolver ask for a name that is not allowed.
func FuzzAnswer(f *testing.F) {
	for _, typ := range []uint16{dns.TypeA, dns.TypeHTTPS, dns.TypePTR, dns.TypeTXT} {
		q := question("b.test", typ)
		q.SetEdns0(1232, false)
		b, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	table := newTable(f, "a.test:443")
	if _, err := table.Learn("a.test", []netpolicy.Answer{{Addr: netip.MustParseAddr("203.0.113.1"), TTL: time.Hour}}); err != nil {
		f.Fatal(err)
	}
	r := &netpolicy.Resolver{Table: table, Hosts: netpolicy.ParseHosts("203.0.113.1 a.test")}
	f.Fuzz(func(t *testing.T, packet []byte) {
		b := r.Answer(t.Context(), packet, false)
		if b == nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(b); err != nil {
			t.Fatalf("%x was answered by what is not an answer: %x: %v", packet, b, err)
		}
		if len(packet) < 12 || !m.Response || m.Id != binary.BigEndian.Uint16(packet) || len(b) > 1232 {
			t.Fatalf("%x was answered by %v", packet, m)
		}
	})
}

// TestTunnel: what a sandbox can say by asking for names is little.
func TestTunnel(t *testing.T) {
	up := nettest.StartDNS(t, []string{"exact.test. 60 A 203.0.113.1"}, nil)
	r := &netpolicy.Resolver{Table: newTable(t, "*.b.test", "exact.test"), Upstreams: []netip.AddrPort{up.Addr}}
	sent := 0
	for i := range 1000 {
		name := fmt.Sprintf("some-words-that-say-something-%04d.b.test", i)
		if m := answer(t, r, question(name, dns.TypeA)); m.Rcode == dns.RcodeNameError {
			sent += len(name) - len(".b.test")
		} else if m.Rcode != dns.RcodeServerFailure {
			t.Fatal(m)
		}
	}
	if sent < 2000 || sent > 5000 {
		t.Errorf("%d characters got out", sent)
	}
	// What was asked for before goes on, and so do names that rules have in full.
	if m := answer(t, r, question("some-words-that-say-something-0001.b.test", dns.TypeA)); m.Rcode != dns.RcodeNameError {
		t.Errorf("a name that was asked for before: %v", m)
	}
	if m := answer(t, r, question("exact.test", dns.TypeA)); len(m.Answer) != 1 {
		t.Errorf("a name that a rule has in full: %v", m)
	}
	fresh := &netpolicy.Resolver{Table: newTable(t, "*.b.test"), Upstreams: r.Upstreams}
	for name, want := range map[string]int{
		"d111111abcdef8.b.test":                                 dns.RcodeNameError, // the server said so
		strings.Repeat("x", 41) + ".b.test":                     dns.RcodeNameError,
		"mzxw6ytboi2tmnzyhfqwczdfmnvgk3dpobsxg5dfn.b.test":      dns.RcodeServerFailure,
		strings.Repeat("four.", 25) + "b.test":                  dns.RcodeServerFailure,
		"0f8fad5b-d9cb-469f-a165-70867728950e.b.test":           dns.RcodeNameError,
		"a-long-name-made-of-words-as-there-are-some-of.b.test": dns.RcodeNameError,
	} {
		if m := answer(t, fresh, question(name, dns.TypeA)); m.Rcode != want {
			t.Errorf("%s: %v", name, m)
		}
	}
	// Where everything is open, counting would keep nothing in.
	open := &netpolicy.Resolver{Table: newTable(t, "*"), Upstreams: r.Upstreams}
	for i := range 300 {
		if m := answer(t, open, question(fmt.Sprintf("some-words-that-say-something-%04d.b.test", i), dns.TypeA)); m.Rcode != dns.RcodeNameError {
			t.Fatal(m)
		}
	}
}

// TestTunnelOfFewNames: names that are asked for again and again say which of them it
// was, so that they are counted, too: a missing name is not asked for again at once.
func TestTunnelOfFewNames(t *testing.T) {
	up := nettest.StartDNS(t, nil, []string{"xx.f.test servfail"})
	r := &netpolicy.Resolver{Table: newTable(t, "*.n.test", "*.f.test"), Upstreams: []netip.AddrPort{up.Addr}}
	const alphabet = "abcdefghijklmnopqrstuvwxyz012345"
	start := time.Now()
	for range 5 {
		for i := range 1024 {
			answer(t, r, question(fmt.Sprintf("%c%c.n.test", alphabet[i/32], alphabet[i%32]), dns.TypeA))
		}
	}
	different := up.Questions()
	for range 5000 { // failures are not remembered
		answer(t, r, question("xx.f.test", dns.TypeA))
	}
	// 4 characters each: of 4096, and 16 a second.
	if n, most := up.Questions(), 2*1024+2*4*int(time.Since(start).Seconds()+1); n > most || different < 1024 {
		t.Errorf("the server was asked %d times, then %d: more than %d", different, n, most)
	}
}

// TestRepeat: a repeated question is answered from memory for as long as the server said. If the server said that its
// answer holds once, the question is asked again, except for names that could form a tunnel.
func TestRepeat(t *testing.T) {
	up := nettest.StartDNS(t, []string{"a.test. 60 A 203.0.113.1", "zero.test. 0 A 203.0.113.2"}, nil)
	table := newTable(t, "*.test:443", "zero.test:443")
	r := &netpolicy.Resolver{Table: table, Upstreams: []netip.AddrPort{up.Addr}}
	for i := range 5000 {
		if m := answer(t, r, question("a.test", dns.TypeA)); len(m.Answer) != 1 {
			t.Fatalf("question %d: %v", i, m)
		}
	}
	if n := up.Questions(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	for range 10 {
		answer(t, r, question("zero.test", dns.TypeA))
	}
	if n := up.Questions(); n != 11 {
		t.Errorf("the server was asked %d times", n)
	}
	// This name is asked for once in five seconds, and told as what it is.
	tunnel := &netpolicy.Resolver{Table: newTable(t, "*.test:443"), Upstreams: []netip.AddrPort{up.Addr}}
	start, before := time.Now(), up.Questions()
	for range 1000 {
		if m := answer(t, tunnel, question("zero.test", dns.TypeA)); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 0 {
			t.Fatal(m)
		}
	}
	if n := up.Questions() - before; n > 1+int(time.Since(start)/(5*time.Second)) {
		t.Errorf("the server was asked %d times", n)
	}
	// What is remembered is judged by the rules of now.
	if err := table.Update(nettest.Policy(t, []string{"*.test:443"}, []string{"203.0.113.1"})); err != nil {
		t.Fatal(err)
	}
	if m := answer(t, r, question("a.test", dns.TypeA)); len(m.Answer) != 0 {
		t.Errorf("%v", m)
	}
}

// TestFlood: too many questions at once are answered by a failure, and the resolver goes on.
func TestFlood(t *testing.T) {
	testenv.Leaks(t)
	up := nettest.StartDNS(t, []string{"a.test. 60 A 203.0.113.1"}, []string{"silent.test silent"})
	r := &netpolicy.Resolver{Table: newTable(t, "silent.test", "a.test"), Upstreams: []netip.AddrPort{up.Addr}}
	address, stop, result := serve(t, r)
	c, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q, err := question("silent.test", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	failures := 0
	buf := make([]byte, 512)
	for range 300 {
		if _, err := c.Write(q); err != nil {
			t.Fatal(err)
		}
	}
	c.SetReadDeadline(time.Now().Add(testenv.Patience))
	for failures < 100 {
		if _, err := c.Read(buf); err != nil {
			t.Fatalf("after %d failures: %v", failures, err)
		}
		failures++
	}
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestOwnNames: names of this machine resolve without a rule, and names that a program has made longer are no refusals.
func TestOwnNames(t *testing.T) {
	table, err := netpolicy.NewTable(nettest.Policy(t, []string{"a.test:443"}, []string{"192.0.2.5"}))
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	r := &netpolicy.Resolver{
		Table: table, Search: []string{"corp.test", "test"}, Log: &netpolicy.Log{NameRefused: func(name string) { refused = append(refused, name) }},
		Hosts: netpolicy.ParseHosts("127.0.1.1 me me.corp.test\n192.0.2.5 addr.test\n203.0.113.7 other.test\n127.0.0.1 both.test\n203.0.113.7 both.test"),
	}
	for _, c := range []struct {
		name    string
		kind    uint16
		answers string
	}{
		{"me", dns.TypeA, "127.0.1.1"}, {"ME", dns.TypeAAAA, ""}, {"me", dns.TypeHTTPS, ""}, {"me.corp.test", dns.TypeA, "127.0.1.1"}, {"addr.test", dns.TypeA, "192.0.2.5"},
		{"localhost", dns.TypeA, "127.0.0.1"}, {"localhost", dns.TypeAAAA, "::1"},
		{"me.test", dns.TypeA, "no"}, {"a.test.corp.test", dns.TypeA, "no"}, {"localhost.corp.test", dns.TypeAAAA, "no"},
		{"other.test", dns.TypeA, "no"}, {"both.test", dns.TypeA, "no"}, {"b.test.corp.test", dns.TypeA, "no"}, {"xcorp.test", dns.TypeA, "no"}, {"corp.test", dns.TypeA, "no"},
	} {
		m := answer(t, r, question(c.name, c.kind))
		var got []string
		for _, rr := range m.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				got = append(got, rr.A.String())
			case *dns.AAAA:
				got = append(got, rr.AAAA.String())
			}
		}
		if m.Rcode == dns.RcodeNameError {
			got = append(got, "no")
		}
		if strings.Join(got, " ") != c.answers {
			t.Errorf("%s: %v", c.name, m)
		}
	}
	if want := []string{"other.test", "both.test", "b.test.corp.test", "xcorp.test", "corp.test"}; !slices.Equal(refused, want) {
		t.Errorf("refused: %q", refused)
	}
	if got := table.Decide(netpolicy.TCP, netip.MustParseAddrPort("127.0.1.1:443")); got.Allowed {
		t.Error("the address of an own name is allowed")
	}
}

func TestLog(t *testing.T) {
	up := nettest.StartDNS(t, []string{"a.test. 60 A 203.0.113.1", "in.test. 60 A 10.0.0.1", "in.test. 60 A 203.0.113.2"}, nil)
	table := newTable(t, "a.test:443", "in.test:443", "udp:203.0.113.9:53")
	var refused []string
	log := &netpolicy.Log{NameRefused: func(name string) { refused = append(refused, name) }}
	r := &netpolicy.Resolver{Table: table, Upstreams: []netip.AddrPort{up.Addr}, Log: log}
	for _, name := range []string{"evil.example", "a.test", "in.test", "evil.example"} {
		answer(t, r, question(name, dns.TypeA))
	}
	if want := []string{"evil.example", "in.test", "evil.example"}; !slices.Equal(refused, want) {
		t.Errorf("reported %q, want %q", refused, want)
	}
	for _, c := range []struct {
		p   netpolicy.Proto
		dst string
	}{
		{netpolicy.TCP, "203.0.113.1:443"}, {netpolicy.TCP, "[::ffff:203.0.113.1]:443"}, {netpolicy.TCP, "203.0.113.1:22"},
		{netpolicy.TCP, "10.0.0.1:443"}, {netpolicy.UDP, "[2001:db8::1]:53"}, {netpolicy.UDP, "203.0.113.9:53"}, {netpolicy.TCP, "0.0.0.0:80"},
		{netpolicy.UDP, "203.0.113.1:0"}, {netpolicy.UDP, "198.51.100.1:0"},
	} {
		dst := netip.MustParseAddrPort(c.dst)
		log.Add(c.p, dst, table.Decide(c.p, dst))
	}
	got, omitted := log.Decisions()
	type d = netpolicy.Decision
	want := []d{
		{Proto: "dns", Host: "evil.example", Count: 2, AllowWith: "--allow-net evil.example"},
		{Proto: "dns", Host: "in.test", Address: "10.0.0.1", Count: 1, AllowWith: "--allow-net 10.0.0.1"},
		{Proto: "tcp", Host: "a.test", Address: "203.0.113.1", Port: 443, Allowed: true, Count: 2},
		{Proto: "tcp", Host: "a.test", Address: "203.0.113.1", Port: 22, Count: 1, AllowWith: "--allow-net tcp:a.test:22"},
		{Proto: "tcp", Address: "10.0.0.1", Port: 443, Count: 1, AllowWith: "--allow-net tcp:10.0.0.1:443"},
		{Proto: "udp", Address: "2001:db8::1", Port: 53, Count: 1, AllowWith: "--allow-net udp:[2001:db8::1]:53"},
		{Proto: "udp", Address: "203.0.113.9", Port: 53, Allowed: true, Count: 1},
		{Proto: "tcp", Address: "0.0.0.0", Port: 80, Count: 1},
		{Proto: "udp", Host: "a.test", Address: "203.0.113.1", Count: 1},
		{Proto: "udp", Address: "198.51.100.1", Count: 1},
	}
	for i := range got {
		if got[i].Time.IsZero() {
			t.Error("a decision without a time")
		}
		got[i].Time = time.Time{}
	}
	if !reflect.DeepEqual(got, want) || omitted != 0 {
		g, _ := json.MarshalIndent(got, "", " ")
		t.Errorf("got %s", g)
	}
	// The flag does what it says.
	for _, d := range got {
		if d.AllowWith == "" || d.Proto == "dns" {
			continue
		}
		table := newTable(t, strings.TrimPrefix(d.AllowWith, "--allow-net "))
		if d.Host != "" {
			if _, err := table.Learn(d.Host, []netpolicy.Answer{{Addr: netip.MustParseAddr(d.Address)}}); err != nil {
				t.Error(err)
			}
		}
		p := map[string]netpolicy.Proto{"tcp": netpolicy.TCP, "udp": netpolicy.UDP}[d.Proto]
		if !table.Decide(p, netip.AddrPortFrom(netip.MustParseAddr(d.Address), d.Port)).Allowed {
			t.Errorf("%q does not allow %+v", d.AllowWith, d)
		}
	}
	b, err := json.Marshal(got[2])
	if err != nil || !bytes.Contains(b, []byte(`"proto":"tcp","host":"a.test","address":"203.0.113.1","port":443,"allowed":true,"count":2`)) {
		t.Errorf("%s, %v", b, err)
	}
	if got, want := log.Rules(), []string{"udp:203.0.113.9:53", "tcp:a.test:443"}; !reflect.DeepEqual(got, want) {
		t.Errorf("rules %q, want %q", got, want)
	}
}

// TestLogIsBounded: a scan does not fill the memory.
func TestLogIsBounded(t *testing.T) {
	log := new(netpolicy.Log)
	for i := range 20000 {
		log.Add(netpolicy.TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 80), netpolicy.Verdict{})
	}
	if list, omitted := log.Decisions(); len(list)+omitted != 20000 || len(list) > 5000 {
		t.Errorf("%d decisions and %d omitted", len(list), omitted)
	}
	// Nor do names, of one address or of many.
	for _, addrs := range []int{1, 1000} {
		log := new(netpolicy.Log)
		for i := range 200_000 {
			dst := netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i % addrs >> 8), byte(i % addrs)}), 80)
			log.Add(netpolicy.TCP, dst, netpolicy.Verdict{Allowed: true, Host: fmt.Sprintf("n%d.test", i)})
		}
		if n := len(log.Rules()); n < min(addrs, 64) || n > 64*addrs || n > 20_000 {
			t.Errorf("%d rules for %d addresses", n, addrs)
		}
	}
}

// TestLearning: what was seen where everything is allowed is allowed by the rules that
// come of it, and those are few.
func TestLearning(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("198.51.100.200")}
	table, err := netpolicy.NewTable(netpolicy.Everything(own))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Learn("a.test", []netpolicy.Answer{{Addr: netip.MustParseAddr("203.0.113.1"), TTL: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	log := new(netpolicy.Log)
	for _, dst := range []string{
		"203.0.113.1:443", "203.0.113.1:444", "203.0.113.1:443", "127.0.0.1:80", "169.254.169.254:80", "198.51.100.200:22", "10.0.0.1:53",
		"[::1]:80", "[fd00:ec2::254]:80", "[2001:db8::1]:443", "[64:ff9b::a00:1]:80", "255.255.255.255:67", "224.0.0.1:5353",
	} {
		dst := netip.MustParseAddrPort(dst)
		v := table.Decide(netpolicy.TCP, dst)
		if !v.Allowed {
			t.Errorf("%v is not allowed", dst)
		}
		log.Add(netpolicy.TCP, dst, v)
	}
	// As getaddrinfo(3) does, to see what has a route.
	sorted := netip.MustParseAddrPort("203.0.113.1:0")
	log.Add(netpolicy.UDP, sorted, table.Decide(netpolicy.UDP, sorted))
	rules := log.Rules()
	if len(rules) != 11 || rules[len(rules)-1] != "tcp:a.test:443-444" {
		t.Errorf("%q", rules)
	}
	p := nettest.Policy(t, rules, nil)
	p.HostAddrs = own
	list, _ := log.Decisions()
	for _, d := range list {
		if d.Port == 0 {
			continue
		}
		if !p.Allows(netpolicy.TCP, netip.AddrPortFrom(netip.MustParseAddr(d.Address), d.Port), d.Host) {
			t.Errorf("%q do not allow %+v", rules, d)
		}
	}
}

// TestLearningNames: the rules are by all names that may have been meant.
func TestLearningNames(t *testing.T) {
	const at = "203.0.113.1:443"
	addr := netip.MustParseAddr("203.0.113.1")
	for _, c := range []struct {
		name  string
		steps []string // learn a name, wait, or reach the port
		want  []string
	}{
		{"one", []string{"a.test", at}, []string{"tcp:a.test:443"}},
		{"one after the other", []string{"a.test", at, "b.test", at}, []string{"tcp:a.test:443", "tcp:b.test:443"}},
		{"both at first", []string{"a.test", "b.test", at}, []string{"tcp:a.test:443", "tcp:b.test:443"}},
		{"again and again", []string{"a.test", "b.test", at, "a.test", at, at}, []string{"tcp:a.test:443", "tcp:b.test:443"}},
		{"the first has gone", []string{"a.test", "1h", "b.test", at}, []string{"tcp:b.test:443"}},
		{"by its address", []string{at, "a.test", at}, []string{"tcp:" + at, "tcp:a.test:443"}},
		{"for longer than it may", []string{"a.test", at, "1h", at}, []string{"tcp:" + at, "tcp:a.test:443"}},
		{"several ports", []string{"a.test", "b.test", at, "203.0.113.1:444"}, []string{"tcp:a.test:443-444", "tcp:b.test:443-444"}},
		{"not the network's", []string{"a.test", "127.0.0.1:80", "a.test"}, []string{"tcp:127.0.0.1:80"}},
		{"not reached", []string{"a.test"}, []string{}},
	} {
		table, err := netpolicy.NewTable(netpolicy.Everything(nil))
		if err != nil {
			t.Fatal(err)
		}
		var passed time.Duration
		table.SetClock(func() time.Duration { return passed })
		log := &netpolicy.Log{Names: table.Names}
		// Then the same is done under the rules that came of it.
		var under *netpolicy.Table
		play := func(table *netpolicy.Table) (allowed bool) {
			passed, allowed = 0, true
			for _, step := range c.steps {
				if d, err := time.ParseDuration(step); err == nil {
					passed += d
				} else if dst, err := netip.ParseAddrPort(step); err == nil {
					v := table.Decide(netpolicy.TCP, dst)
					allowed = allowed && v.Allowed
					if table != under {
						log.Add(netpolicy.TCP, dst, v)
					}
				} else if table.AllowsName(step) { // what was not reached need not be
					if _, err := table.Learn(step, []netpolicy.Answer{{Addr: addr, TTL: time.Minute}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			return allowed
		}
		play(table)
		got := log.Rules()
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
		under = newTable(t, got...)
		under.SetClock(func() time.Duration { return passed })
		if !play(under) {
			t.Errorf("%s: the rules %q are not enough", c.name, got)
		}
	}
}

// TestSlowClient: there are as many connections as the resolver has room for questions, and each sends half of a
// question. They delay neither other clients nor the end.
func TestSlowClient(t *testing.T) {
	testenv.Leaks(t)
	r := &netpolicy.Resolver{Table: newTable(t, "a.test"), Hosts: netpolicy.ParseHosts("203.0.113.1 a.test")}
	address, stop, result := serve(t, r)
	var c net.Conn
	for range 100 {
		var err error
		if c, err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{0, 40, 1}); err != nil {
			t.Fatal(err)
		}
	}
	m, _, err := (&dns.Client{Net: "tcp"}).Exchange(question("a.test", dns.TypeA), address)
	if err != nil || len(m.Answer) != 1 {
		t.Errorf("%v, %v", m, err)
	}
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
	c.SetReadDeadline(time.Now().Add(testenv.Patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still there: %v", err)
	}
}

// TestTCPDeadlines: what the question and the search for its answer took is not taken off
// the time to write it.
func TestTCPDeadlines(t *testing.T) {
	testenv.Leaks(t)
	r := &netpolicy.Resolver{Table: newTable(t, "a.test"), Hosts: netpolicy.ParseHosts("203.0.113.1 a.test")}
	here, there := net.Pipe()
	defer here.Close()
	calls := &watched{Conn: there}
	conns := &oneConn{c: make(chan net.Conn, 1), done: make(chan struct{})}
	conns.c <- calls
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, nil, conns) }()
	for range 2 {
		m, _, err := (&dns.Client{Net: "tcp"}).ExchangeWithConn(question("a.test", dns.TypeA), &dns.Conn{Conn: here})
		if err != nil || len(m.Answer) != 1 {
			t.Errorf("%v, %v", m, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := strings.Join(calls.list, " "); !strings.HasPrefix(got, "deadline read deadline write deadline read deadline write") {
		t.Errorf("calls: %s", got)
	}
}

// watched notes in which order a connection is used. Reads in a row count once.
type watched struct {
	net.Conn
	list []string
}

func (w *watched) note(call string) {
	if len(w.list) == 0 || w.list[len(w.list)-1] != call {
		w.list = append(w.list, call)
	}
}

func (w *watched) Read(b []byte) (int, error) {
	w.note("read")
	return w.Conn.Read(b)
}

func (w *watched) Write(b []byte) (int, error) {
	w.note("write")
	return w.Conn.Write(b)
}

func (w *watched) SetDeadline(at time.Time) error {
	w.note("deadline")
	return w.Conn.SetDeadline(at)
}

type oneConn struct {
	c    chan net.Conn
	done chan struct{}
	once sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.c:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return nil }

// BenchmarkResolve is a question over UDP, asked again and again, as by a
// program that makes many connections; direct is the server without a resolver between.
func BenchmarkResolve(b *testing.B) {
	up := nettest.StartDNS(b, []string{"a.test. 60 A 203.0.113.1"}, nil)
	table := newTable(b, "a.test:443")
	address, _, _ := serve(b, &netpolicy.Resolver{Table: table, Upstreams: []netip.AddrPort{up.Addr}})
	for _, v := range []struct{ name, address string }{{"direct", up.Addr.String()}, {"resolver", address}} {
		b.Run(v.name, func(b *testing.B) {
			c, err := dns.Dial("udp", v.address)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			client := new(dns.Client)
			for b.Loop() {
				m, _, err := client.ExchangeWithConn(question("a.test", dns.TypeA), c)
				if err != nil {
					b.Fatal(err)
				}
				if len(m.Answer) != 1 {
					b.Fatal(m)
				}
			}
		})
	}
}
