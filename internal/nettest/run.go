//go:build linux

package nettest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/nsrun/nsrun/internal/netcases"
	"github.com/nsrun/nsrun/netpolicy"
)

// An Attempt is one thing for the sandboxed side to do.
type Attempt struct {
	How    string         // as in netcases, of a Step only "make"; "dns" sends Packet to the resolver
	Mapped bool           // through an IPv6 socket
	Addr   netip.AddrPort // where to
	Kind   string         // of "open", "join" and "make"
	Packet []byte         // of "dns"
	TCP    bool           // of "dns": over TCP
}

// An Outcome is what came of an Attempt.
type Outcome struct {
	OK     bool
	Err    string
	Packet []byte // the answer of "dns"
}

// A Sandbox does attempts under the rules of a table.
type Sandbox interface {
	Do(Attempt) Outcome
}

// A Clock is a Sandbox whose table's time can be set.
type Clock interface {
	Advance(time.Duration)
}

// A Mutable Sandbox can do without its resolver.
type Mutable interface {
	Mute()
}

// A Stoppable Sandbox is held by something that can end.
type Stoppable interface {
	Stop()
}

// A Picky Sandbox does not do all kinds of attempts: it has no sockets, say.
type Picky interface {
	Does(netcases.Try) bool
}

// Start makes a sandbox under the rules of a table, with a resolver that is not being
// served yet. It ends with the test.
type Start func(t testing.TB, table *netpolicy.Table, resolver *netpolicy.Resolver) Sandbox

// Run drives a sandbox with all cases, and returns how many tries had the right outcome.
func Run(t *testing.T, start Start) (tried int) {
	for _, c := range netcases.All() {
		t.Run(strings.ReplaceAll(c.Name, " ", "_"), func(t *testing.T) { tried += run(t, start, c) })
	}
	return tried
}

func Policy(t testing.TB, rules, own []string) netpolicy.Policy {
	t.Helper()
	p, err := netpolicy.ParsePolicy(rules...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		p.HostAddrs = append(p.HostAddrs, netip.MustParseAddr(a))
	}
	return p
}

// run tries a case. It is long because each kind of try is one short case.
func run(t *testing.T, start Start, c netcases.Case) (tried int) {
	server := StartDNS(t, c.Zone, c.Lies)
	own := strings.Fields(c.Own)
	table, err := netpolicy.NewTable(Policy(t, strings.Fields(c.Rules), own))
	if err != nil {
		t.Fatal(err)
	}
	resolver := &netpolicy.Resolver{
		Table:     table,
		Upstreams: []netip.AddrPort{server.Addr},
		Hosts:     netpolicy.ParseHosts(c.Hosts),
		Log:       new(netpolicy.Log),
	}
	s := start(t, table, resolver)
	changing := slices.ContainsFunc(c.Zone, func(line string) bool { return strings.HasPrefix(line, "2: ") })
	for _, line := range c.Tries {
		try := netcases.ParseTry(line)
		switch try.How {
		case "update":
			var rules []string
			if try.Target != "" {
				rules = append(try.Args, try.Target)
			}
			if err := table.Update(Policy(t, rules, own)); err != nil {
				t.Fatal(err)
			}
			continue
		case "wait":
			clock, ok := s.(Clock)
			if !ok {
				return tried // the rest depends on it
			}
			d, err := time.ParseDuration(try.Target)
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(d)
			continue
		case "mute":
			s.(Mutable).Mute()
			continue
		case "stop":
			held, ok := s.(Stoppable)
			if !ok {
				return tried
			}
			held.Stop()
			continue
		case "make":
			if out := s.Do(Attempt{How: try.How, Kind: try.Target}); !out.OK {
				t.Fatalf("%s: %s", line, out.Err)
			}
			continue
		}
		if p, ok := s.(Picky); ok && !p.Does(try) {
			continue
		}
		tried++
		if try.How == "dns" {
			for _, tcp := range []bool{false, true} {
				if tcp && changing {
					continue // this would be the second look
				}
				if got, want := ask(t, s, try.Target, try.Args[0], tcp), strings.Join(try.Args[1:], " "); got != want {
					t.Errorf("%s (TCP: %v): %s", line, tcp, got)
				}
			}
			continue
		}
		want, ok := try.Want()
		if !ok {
			t.Fatalf("%q says neither yes nor no", line)
		}
		for i := 1; ; i++ {
			start := time.Now()
			out := attempt(t, s, try)
			took := time.Since(start)
			if out.OK != want {
				t.Errorf("%s: got %v (%s)", line, out.OK, out.Err)
			} else if !want && took > 3*time.Second {
				if i < 3 {
					continue // the machine may have been busy
				}
				t.Errorf("%s: the refusal took %v, in try %d", line, took, i)
			}
			break
		}
	}
	switch got := strings.Join(server.Asked(), " "); {
	case c.Asked == "-" && got != "", c.Asked != "-" && c.Asked != "" && got != c.Asked:
		t.Errorf("the server was asked for %q, want %q", got, c.Asked)
	}
	return tried
}

// attempt looks the name up, if there is one, and tries.
func attempt(t testing.TB, s Sandbox, try netcases.Try) Outcome {
	t.Helper()
	switch try.How {
	case "open":
		return s.Do(Attempt{How: try.How, Kind: try.Target})
	case "join":
		return joined(s.Do(Attempt{How: try.How, Kind: try.Target}), try.Target)
	}
	a, ok := byAddress(try)
	if !ok {
		typ := "A"
		if try.Family == 6 {
			typ = "AAAA"
		}
		i := strings.LastIndexByte(try.Target, ':')
		answer := ask(t, s, typ, try.Target[:i], false)
		first, _, _ := strings.Cut(answer, ",")
		addr, err := netip.ParseAddr(first)
		if err != nil {
			return Outcome{Err: try.Target + " is " + answer}
		}
		a.Addr = netip.AddrPortFrom(addr, a.Addr.Port())
	}
	return s.Do(a)
}

// byAddress makes an attempt of a try; ok if it is one by address, otherwise only the port is known.
func byAddress(try netcases.Try) (a Attempt, ok bool) {
	i := strings.LastIndexByte(try.Target, ':')
	port := netip.MustParseAddrPort("0.0.0.0" + try.Target[i:]).Port()
	addr, err := netip.ParseAddr(try.Target[:i])
	return Attempt{How: try.How, Mapped: try.Mapped, Addr: netip.AddrPortFrom(addr, port)}, err == nil
}

// ask asks the resolver, and returns the answer as netcases writes it.
func ask(t testing.TB, s Sandbox, typ, name string, tcp bool) string {
	t.Helper()
	qtype, ok := dns.StringToType[typ]
	if !ok {
		t.Fatalf("there is no type %s", typ)
	}
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	b, err := q.Pack()
	if err != nil {
		return err.Error()
	}
	out := s.Do(Attempt{How: "dns", Packet: b, TCP: tcp})
	if !out.OK {
		return out.Err
	}
	m := new(dns.Msg)
	if err := m.Unpack(out.Packet); err != nil {
		return err.Error()
	}
	if m.Id != q.Id || !m.Response || len(m.Question) != 1 || m.Question[0] != q.Question[0] {
		return fmt.Sprintf("not an answer: %v", m)
	}
	if m.Rcode != dns.RcodeSuccess {
		return map[int]string{dns.RcodeNameError: "nxdomain", dns.RcodeServerFailure: "servfail", dns.RcodeRefused: "refused"}[m.Rcode]
	}
	var list []string
	for _, rr := range m.Answer {
		if rr.Header().Name != q.Question[0].Name || rr.Header().Rrtype != qtype {
			return "a foreign record: " + rr.String()
		}
		switch rr := rr.(type) {
		case *dns.A:
			list = append(list, rr.A.String())
		case *dns.AAAA:
			list = append(list, rr.AAAA.String())
		case *dns.PTR:
			list = append(list, rr.Ptr)
		default:
			return rr.String()
		}
	}
	if len(list) == 0 {
		return "empty"
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
