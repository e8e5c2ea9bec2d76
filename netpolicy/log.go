package netpolicy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxDecisions = 4096             // different decisions that a Log keeps
	maxNames     = 64               // names of one of them
	maxAllNames  = 4 * maxDecisions // and of all together
)

// A Decision is an attempt of the sandbox to reach something, or to serve at a port, and whether it was allowed.
type Decision struct {
	Time      time.Time `json:"time"`              // the first time
	Proto     string    `json:"proto"`             // "tcp", "udp", or "dns": it asked for a name
	Host      string    `json:"host,omitempty"`    // the name, if one is known
	Address   string    `json:"address,omitempty"` // none where only a name was asked for
	Port      uint16    `json:"port,omitempty"`
	Server    bool      `json:"server,omitempty"` // it wanted to be a server there
	Group     bool      `json:"group,omitempty"`  // it wanted to join the multicast or anycast group of this address
	Allowed   bool      `json:"allowed"`
	Count     int       `json:"count"`
	AllowWith string    `json:"allow_with,omitempty"` // the flag that would allow it
}

// A Log keeps each different decision once, with a count. The zero Log is empty and ready to use. It keeps the first
// few thousand decisions and counts the others, so a sandbox cannot make it larger than some megabytes.
type Log struct {
	// Names returns the names of an address, such as Table.Names. Any of them may be the intended one, so Rules has
	// all of them. Nil: the Log uses the names in the verdicts.
	Names func(netip.Addr) []string
	// Hosts are names that are resolved without a Resolver, such as those of Resolver.Hosts.
	Hosts map[string][]netip.Addr
	// NameRefused is called for each name that is refused, before its lookup is answered. Nil: nobody is told.
	NameRefused func(name string)

	mu      sync.Mutex
	seen    map[logKey]*logged
	order   []*logged
	names   int // of all in order
	omitted int
}

// logKey identifies a decision. It has no name for addresses: two names of one address are one target, with two rules.
type logKey struct {
	dst     netip.AddrPort
	name    string
	proto   Proto
	allowed bool
	server  bool
	group   bool
}

type logged struct {
	logKey
	verdict Verdict
	names   []string // that it had when it was allowed; "" if it had none
	time    time.Time
	count   int
}

// Add records a verdict of Table.Decide.
func (l *Log) Add(p Proto, dst netip.AddrPort, v Verdict) { l.AddCount(p, dst, v, 1) }

// AddCount is like Add, for n equal verdicts at once, as a BPF program counts them.
func (l *Log) AddCount(p Proto, dst netip.AddrPort, v Verdict, n int) {
	if l == nil {
		return
	}
	dst = netip.AddrPortFrom(dst.Addr().Unmap().WithZone(""), dst.Port())
	var names []string
	if v.Allowed {
		if l.Names != nil {
			names = l.Names(dst.Addr())
		}
		names = append(names, v.Host)
	}
	l.add(logKey{dst: dst, proto: p, allowed: v.Allowed}, v, n, names...)
}

// AddServer records that the sandbox was refused n times to serve at a port, because the port is not published.
func (l *Log) AddServer(p Proto, at netip.AddrPort, n int) {
	l.add(logKey{dst: at, proto: p, server: true}, Verdict{}, n)
}

// AddGroup records that the sandbox was refused n times to join a multicast group. No rule can allow that.
func (l *Log) AddGroup(p Proto, group netip.Addr, n int) {
	l.add(logKey{dst: netip.AddrPortFrom(group, 0), proto: p, group: true}, Verdict{}, n)
}

// addName notes that the sandbox asked for a name and was refused.
func (l *Log) addName(name string) {
	l.add(logKey{name: name}, Verdict{Host: name}, 1)
	l.tellName(name)
}

// addBlocked notes that a name has an address that names do not open.
func (l *Log) addBlocked(name string, addr netip.Addr, what string) {
	l.add(logKey{name: name, dst: netip.AddrPortFrom(addr, 0)}, Verdict{Host: name, Special: what}, 1)
	l.tellName(name)
}

func (l *Log) tellName(name string) {
	if l != nil && l.NameRefused != nil {
		l.NameRefused(name)
	}
}

func (l *Log) add(k logKey, v Verdict, n int, names ...string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.seen[k]; d != nil {
		d.count += n
		if v.Host != "" {
			d.verdict.Host = v.Host
		}
		l.addNames(d, names)
		return
	}
	if len(l.order) >= maxDecisions {
		l.omitted += n
		return
	}
	if l.seen == nil {
		l.seen = make(map[logKey]*logged)
	}
	d := &logged{logKey: k, verdict: v, time: time.Now(), count: n}
	l.addNames(d, names)
	l.seen[k] = d
	l.order = append(l.order, d)
}

// addNames notes names, of which the latest is the last, as long as there is room. There is for one.
func (l *Log) addNames(d *logged, names []string) {
	for _, name := range slices.Backward(names) {
		if n := len(d.names); n > 0 && (n >= maxNames || l.names >= maxAllNames) {
			return
		}
		if !slices.Contains(d.names, name) {
			d.names = append(d.names, name)
			l.names++
		}
	}
}

// Decisions returns the decisions, earliest first, and the number of attempts that are not among them.
func (l *Log) Decisions() (list []Decision, omitted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.order {
		list = append(list, d.decision())
	}
	return list, l.omitted
}

func (d *logged) decision() Decision {
	out := Decision{
		Time:    d.time,
		Proto:   d.proto.String(),
		Host:    d.verdict.Host,
		Port:    d.dst.Port(),
		Server:  d.server,
		Group:   d.group,
		Allowed: d.allowed,
		Count:   d.count,
	}
	if d.proto == AnyProto {
		out.Proto = "dns"
	}
	if d.dst.Addr().IsValid() {
		out.Address = d.dst.Addr().String()
	}
	switch {
	case d.server && d.proto == TCP:
		out.AllowWith = "--publish " + strconv.Itoa(int(out.Port))
	case !d.allowed && !d.server && !d.group:
		if r, ok := d.rule(d.verdict.Host); ok {
			out.AllowWith = "--allow-net " + r.String()
		}
	}
	return out
}

// rule returns the narrowest rule that allows what was decided about, by name unless that is "". Port 0 has no rule:
// without a port a rule would open all of them. getaddrinfo(3) connects UDP sockets to port 0 to find out which
// addresses have a route.
func (d *logged) rule(name string) (Rule, bool) {
	if d.proto != AnyProto && d.dst.Port() == 0 {
		return Rule{}, false
	}
	addr := d.dst.Addr()
	switch {
	case name != "" && (!addr.IsValid() || d.verdict.Special == ""):
		return d.byName(name)
	case addr.IsValid() && !addr.IsUnspecified():
		return d.checked(Rule{Prefix: netip.PrefixFrom(addr, addr.BitLen())})
	}
	return Rule{}, false
}

func (d *logged) byName(name string) (Rule, bool) { return d.checked(Rule{Host: name}) }

// checked completes a rule, if it can be written: a hostile name results in no flag.
func (d *logged) checked(r Rule) (Rule, bool) {
	r.Proto, r.First, r.Last = d.proto, d.dst.Port(), d.dst.Port()
	again, err := Parse(r.String())
	return r, err == nil && again == r
}

// Rules returns rules that allow everything that was allowed, except port 0: by name if one was known, by each name if
// there were several, and by address if no name was known or names do not open the address. After a run under
// Everything, these are the rules that the sandbox needs.
func (l *Log) Rules() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rules []Rule
	for _, d := range l.order {
		if !d.allowed {
			continue
		}
		for _, name := range d.names {
			if r, ok := d.rule(name); ok {
				rules = append(rules, r)
			}
			// That was by address, and names that are not allowed do not exist.
			if _, own := l.Hosts[name]; d.verdict.Special != "" && name != "" && !own {
				if r, ok := d.byName(name); ok {
					rules = append(rules, r)
				}
			}
		}
	}
	rules = joinPorts(rules)
	texts := make([]string, 0, len(rules))
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	return texts
}

// joinPorts makes one rule of those for the same host whose ports follow each other.
func joinPorts(rules []Rule) []Rule {
	slices.SortFunc(rules, func(a, b Rule) int {
		for _, c := range []int{
			strings.Compare(a.Host, b.Host), a.Prefix.Addr().Compare(b.Prefix.Addr()),
			int(a.Proto) - int(b.Proto), int(a.First) - int(b.First),
		} {
			if c != 0 {
				return c
			}
		}
		return 0
	})
	out := rules[:0]
	for _, r := range rules {
		if n := len(out) - 1; n >= 0 && out[n].Host == r.Host && out[n].Prefix == r.Prefix && out[n].Proto == r.Proto &&
			r.First > 0 && int(r.First) <= int(out[n].Last)+1 {
			out[n].Last = max(out[n].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Everything returns a Policy that allows all names and addresses, including special ones, to find out with a Log what
// a program needs. own are the host's own addresses.
func Everything(own []netip.Addr) Policy {
	p := Policy{Rules: []Rule{{Any: true}}, HostAddrs: own}
	for _, s := range allSpecial(own) {
		p.Rules = append(p.Rules, Rule{Prefix: s.prefix})
	}
	return p
}
