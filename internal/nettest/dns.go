//go:build linux

package nettest

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Forged is the address in answers that nobody should believe.
const Forged = "203.0.113.66"

// DNS is a server that answers from records, and lies where it is told to. The lies:
//
//	wrong-id-first, wrong-question-first, query-first, garbage-first
//	               a packet that is not an answer comes before the one that is
//	wrong-id       only that packet comes
//	truncated      over UDP there is no content
//	extra          with records beside the chain, and in the other sections
//	upper-case     the question comes back in upper case
//	wrong-class    the records are of class CH
//	servfail, refused
//	silent         nothing comes
type DNS struct {
	Addr netip.AddrPort // UDP and TCP

	mu    sync.Mutex
	zone  map[string][]dns.RR // by name and type
	then  map[string][]dns.RR // in answers after the first
	lies  map[string]string
	count map[string]int
	asked []string
}

// StartDNS starts a server on loopback, which stops at the end of the test.
func StartDNS(t testing.TB, zone, lies []string) *DNS {
	t.Helper()
	d := &DNS{zone: make(map[string][]dns.RR), then: make(map[string][]dns.RR), lies: make(map[string]string), count: make(map[string]int)}
	for _, line := range zone {
		to := d.zone
		if rest, ok := strings.CutPrefix(line, "2: "); ok {
			to, line = d.then, rest
		}
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		k := key(rr.Header().Name, rr.Header().Rrtype)
		to[k] = append(to[k], rr)
	}
	for _, line := range lies {
		name, lie, _ := strings.Cut(line, " ")
		d.lies[dns.Fqdn(name)] = lie
	}
	pc, l := ListenBoth(t, "127.0.0.1", 0)
	d.Addr = netip.MustParseAddrPort(pc.LocalAddr().String())
	serveDNS(t, &dns.Server{PacketConn: pc, Handler: d}, &dns.Server{Listener: l, Handler: d})
	return d
}

// serveDNS runs servers until the end of the test.
func serveDNS(t testing.TB, servers ...*dns.Server) {
	for _, s := range servers {
		started, done := make(chan struct{}), make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(done)
			_ = s.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() {
			_ = s.Shutdown()
			<-done
		})
	}
}

// ListenBoth listens on the same port of UDP and TCP; 0 is one that is free for both.
func ListenBoth(t testing.TB, addr string, port uint16) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 100 {
		pc, err := net.ListenPacket("udp", net.JoinHostPort(addr, strconv.Itoa(int(port))))
		if err != nil {
			t.Fatal(err)
		}
		if l, err := net.Listen("tcp", pc.LocalAddr().String()); err == nil {
			return pc, l
		}
		pc.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

// Asked returns the names that the server was asked for, sorted, each once.
func (d *DNS) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.Clone(d.asked)
	slices.Sort(list)
	return slices.Compact(list)
}

// Questions returns how many questions came.
func (d *DNS) Questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

func key(name string, typ uint16) string { return strings.ToLower(name) + " " + dns.TypeToString[typ] }

func (d *DNS) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(q.Question) != 1 {
		d.asked = append(d.asked, "(no single question)")
		return
	}
	question := q.Question[0]
	name := strings.ToLower(question.Name)
	d.asked = append(d.asked, strings.TrimSuffix(name, "."))
	m := d.answer(q, name, question.Qtype)
	udp := w.LocalAddr().Network() == "udp"

	forged := m.Copy()
	if rr, err := dns.NewRR(name + " 60 A " + Forged); err == nil {
		forged.Answer = []dns.RR{rr}
	}
	switch lie := d.lies[name]; lie {
	case "wrong-id-first", "wrong-id":
		forged.Id++
		_ = w.WriteMsg(forged)
		if lie == "wrong-id" {
			return
		}
	case "wrong-question-first":
		forged.Question[0].Name = "x" + forged.Question[0].Name
		_ = w.WriteMsg(forged)
	case "query-first":
		forged.Response = false
		_ = w.WriteMsg(forged)
	case "garbage-first":
		_, _ = w.Write([]byte{0})
		_, _ = w.Write([]byte(strings.Repeat("\xff", 40)))
		if b, err := forged.Pack(); err == nil {
			_, _ = w.Write(b[:len(b)-3])
		}
	case "truncated":
		if udp {
			m.Answer, m.Truncated = nil, true
		}
	case "extra":
		forged.Answer[0].Header().Name = "beside.test."
		m.Answer = append(m.Answer, forged.Answer...)
		other, _ := dns.NewRR(name + " 60 A " + Forged)
		m.Ns, m.Extra = append(m.Ns, other), append(m.Extra, other)
	case "upper-case":
		m.Question[0].Name = strings.ToUpper(question.Name)
	case "wrong-class":
		for i, rr := range m.Answer {
			m.Answer[i] = dns.Copy(rr)
			m.Answer[i].Header().Class = dns.ClassCHAOS
		}
	case "servfail":
		m.Rcode, m.Answer = dns.RcodeServerFailure, nil
	case "refused":
		m.Rcode, m.Answer = dns.RcodeRefused, nil
	case "silent":
		return
	}
	_ = w.WriteMsg(m)
}

// answer makes the honest answer: the records of the name, or the chain from it.
func (d *DNS) answer(q *dns.Msg, name string, typ uint16) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	k := key(name, typ)
	d.count[k]++
	exists := false
	for range 10 {
		for _, t := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeCNAME, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeHTTPS} {
			exists = exists || d.zone[key(name, t)] != nil
		}
		if rrs := d.then[key(name, typ)]; rrs != nil && d.count[k] > 1 {
			m.Answer = append(m.Answer, rrs...)
			break
		}
		if rrs := d.zone[key(name, typ)]; rrs != nil {
			m.Answer = append(m.Answer, rrs...)
			break
		}
		alias := d.zone[key(name, dns.TypeCNAME)]
		if alias == nil {
			break
		}
		m.Answer = append(m.Answer, alias...)
		name = strings.ToLower(alias[0].(*dns.CNAME).Target)
	}
	if !exists && d.lies[name] == "" {
		m.Rcode = dns.RcodeNameError
	}
	return m
}
