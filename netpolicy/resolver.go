package netpolicy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	maxQueries   = 128              // answered at the same time
	maxConns     = maxQueries       // TCP connections at the same time: without namespaces, each C library asks over one
	idle         = 10 * time.Second // a TCP connection may be silent so long
	maxToldTTL   = 5 * time.Minute  // nobody is told a longer time to live
	hostsTTL     = time.Minute      // of what ParseHosts has read, and of PTR
	maxUDP       = 1232             // the largest answer over UDP
	maxAnswers   = 64               // addresses in one answer
	queryTimeout = 8 * time.Second  // for all upstreams together
)

// A Resolver is the DNS server of a sandbox. It forwards only names that the rules allow, and returns only addresses
// that may then be reached, after the table has learned them. It answers everything else by itself, at once:
//
//   - Names that no rule allows do not resolve, except those of this machine: they need no server.
//   - A, AAAA and PTR have answers. For an allowed name HTTPS, SVCB and CNAME are empty, so that programs go on with
//     the others. Other types are refused.
//   - A packet that does not have exactly one question, of class IN, is an error.
//
// Queries are written anew before they are forwarded: only the name, in lower case, and the type of the sandbox's
// packet leave the host. While no Resolver runs, no name resolves.
type Resolver struct {
	Table     *Table
	Upstreams []netip.AddrPort        // servers that are asked, one after the other
	Hosts     map[string][]netip.Addr // names that are not asked for elsewhere
	Search    []string                // the domains that programs append to names, as in resolv.conf(5)
	Log       *Log                    // where refusals are noted; nil: nowhere
	MixCase   bool                    // make answers harder to forge; not all servers can do it

	// Serves reports whether Serve answers a client, which talks to server. Nil: it answers all.
	Serves func(p Proto, client, server netip.AddrPort) bool

	limits  limits
	cache   cache
	queries chan struct{}
	once    sync.Once
}

// Serve answers queries that arrive over packets and conns (either may be nil), until the context ends or one of them
// fails. It closes both. It also expires addresses of the table.
func (r *Resolver) Serve(until context.Context, packets net.PacketConn, conns net.Listener) error {
	r.once.Do(func() { r.queries = make(chan struct{}, maxQueries) })
	ctx, cancel := context.WithCancelCause(until)
	defer cancel(nil)
	var wg sync.WaitGroup
	if packets != nil {
		wg.Go(func() { cancel(r.servePackets(ctx, packets)) })
	}
	if conns != nil {
		wg.Go(func() { cancel(r.serveConns(ctx, conns)) })
	}
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.Table.Expire()
			case <-ctx.Done():
				return
			}
		}
	})
	<-ctx.Done()
	if packets != nil {
		packets.Close()
	}
	if conns != nil {
		conns.Close()
	}
	wg.Wait()
	if until.Err() != nil {
		return nil
	}
	return &Error{Op: "resolve", Err: context.Cause(ctx)}
}

func (r *Resolver) servePackets(ctx context.Context, packets net.PacketConn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	buf := make([]byte, 65535)
	for {
		n, from, err := packets.ReadFrom(buf)
		if err != nil {
			if temporary(err) && pause(ctx) {
				continue
			}
			return err
		}
		query := append([]byte(nil), buf[:n]...)
		select {
		case r.queries <- struct{}{}:
		default:
			if b := failed(query); b != nil {
				packets.WriteTo(b, from)
			}
			continue
		}
		wg.Go(func() {
			defer func() { <-r.queries }()
			if !r.serves(UDP, from, packets.LocalAddr()) {
				return
			}
			if b := r.Answer(ctx, query, false); b != nil {
				packets.WriteTo(b, from)
			}
		})
	}
}

func (r *Resolver) serveConns(ctx context.Context, conns net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxConns)
	for {
		c, err := conns.Accept()
		if err != nil {
			if temporary(err) && pause(ctx) {
				continue
			}
			return err
		}
		select {
		case slots <- struct{}{}:
		default:
			c.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			if !r.serves(TCP, c.RemoteAddr(), c.LocalAddr()) {
				return
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			for {
				c.SetDeadline(time.Now().Add(idle))
				query, err := readTCP(c)
				if err != nil {
					return
				}
				var b []byte
				select {
				case r.queries <- struct{}{}:
					b = r.Answer(ctx, query, true)
					<-r.queries
				default:
					b = failed(query)
				}
				c.SetDeadline(time.Now().Add(idle)) // the answer may have taken most of it
				if b == nil || writeTCP(c, b) != nil {
					return
				}
			}
		})
	}
}

func (r *Resolver) serves(p Proto, client, server net.Addr) bool {
	if r.Serves == nil {
		return true
	}
	from, err := netip.ParseAddrPort(client.String())
	to, other := netip.ParseAddrPort(server.String())
	return err == nil && other == nil && r.Serves(p, from, to)
}

// temporary reports whether a socket that failed can still be used: the error was about one of its clients, or will
// pass.
func temporary(err error) bool {
	e, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{
		syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	}, e)
}

// pause waits a little, and says whether to go on.
func pause(ctx context.Context) bool {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func readTCP(c io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(c, b)
	return b, err
}

func writeTCP(c io.Writer, b []byte) error {
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	return err
}

// A query has the parts of the sandbox's question that are used.
type query struct {
	id       uint16
	rd       bool
	question dnsmessage.Question
	name     string // canonical; "" if it is none
	size     int    // the largest answer it can take
	edns     bool
}

// Answer returns the answer to one packet of the sandbox; nil: none.
func (r *Resolver) Answer(ctx context.Context, packet []byte, tcp bool) []byte {
	q, code, ok := parseQuery(packet)
	if !ok {
		return nil
	}
	if tcp {
		q.size = 65535
	}
	if code != dnsmessage.RCodeSuccess {
		return q.answer(code, nil)
	}
	switch q.question.Type {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeCNAME, typeSVCB, typeHTTPS:
	case dnsmessage.TypePTR:
		return r.reverse(q)
	default:
		return q.answer(dnsmessage.RCodeRefused, nil)
	}
	if q.name == "" {
		return q.answer(dnsmessage.RCodeNameError, nil)
	}
	if addrs := r.local(q.name); addrs != nil {
		return q.answer(dnsmessage.RCodeSuccess, q.resources(ofHosts(addrs)))
	}
	if !r.Table.AllowsName(q.name) {
		if !r.isCompleted(q.name) {
			r.Log.addName(q.name)
		}
		return q.answer(dnsmessage.RCodeNameError, nil)
	}
	if q.question.Type != dnsmessage.TypeA && q.question.Type != dnsmessage.TypeAAAA {
		return q.answer(dnsmessage.RCodeSuccess, nil)
	}
	answers, code := r.lookUp(ctx, q)
	if code != dnsmessage.RCodeSuccess {
		return q.answer(code, nil)
	}
	told, err := r.Table.Learn(q.name, answers)
	if errors.Is(err, ErrNotAllowed) {
		return q.answer(dnsmessage.RCodeNameError, nil)
	} else if err != nil {
		return q.answer(dnsmessage.RCodeServerFailure, nil)
	}
	if len(told) < len(answers) {
		r.logBlocked(q.name, answers, told)
	}
	return q.answer(dnsmessage.RCodeSuccess, q.resources(told))
}

// local returns the addresses of a name that means only this machine. To connect to them takes other rules.
func (r *Resolver) local(name string) []netip.Addr {
	if name == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	addrs := r.Hosts[name]
	for _, a := range addrs {
		if what := r.Table.Decide(AnyProto, netip.AddrPortFrom(a, 0)).Special; what != "loopback" && what != "own" {
			return nil
		}
	}
	return addrs
}

// isCompleted reports whether a program has appended a domain to a name that it can resolve without it. To refuse the
// longer name then denies it nothing.
func (r *Resolver) isCompleted(name string) bool {
	return slices.ContainsFunc(r.Search, func(domain string) bool {
		short, ok := strings.CutSuffix(name, "."+domain)
		return ok && (r.Table.AllowsName(short) || r.local(short) != nil)
	})
}

// logBlocked notes the addresses that are withheld.
func (r *Resolver) logBlocked(name string, answers, told []Answer) {
	for _, a := range answers {
		gone := true
		for _, b := range told {
			gone = gone && a.Addr != b.Addr
		}
		if gone {
			r.Log.addBlocked(name, a.Addr, r.Table.Decide(AnyProto, netip.AddrPortFrom(a.Addr, 0)).Special)
		}
	}
}

func ofHosts(addrs []netip.Addr) (answers []Answer) {
	for _, a := range addrs {
		answers = append(answers, Answer{a, hostsTTL})
	}
	return answers
}

// lookUp returns the addresses of a name, of the family that was asked for.
func (r *Resolver) lookUp(ctx context.Context, q *query) ([]Answer, dnsmessage.RCode) {
	if addrs, ok := r.Hosts[q.name]; ok {
		addrs = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is4() != (q.question.Type == dnsmessage.TypeA) })
		return ofHosts(addrs), dnsmessage.RCodeSuccess
	}
	k := cacheKey{q.name, q.question.Type}
	if answers, code, ok := r.cache.get(k, time.Now()); ok {
		return answers, code
	}
	free := r.Table.freeChars(q.name)
	if !r.limits.take(q.name, free, time.Now()) {
		r.Log.addName(q.name)
		return nil, dnsmessage.RCodeServerFailure
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	answers, code := r.forward(ctx, q.name, q.question.Type)
	r.cache.put(k, answers, code, free > 0, time.Now())
	return answers, code
}

// freeChars returns how many characters at the beginning of a name are in no rule that allows it. If every name is
// allowed it does not matter: data can be sent without names then.
func (t *Table) freeChars(name string) int {
	s := t.state.Load()
	if _, ok := s.exact[name]; ok || s.anyRule {
		return 0
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if _, ok := s.suffix[name[i+1:]]; ok {
			return i
		}
	}
	return len(name)
}

// reverse answers with the name for which an address was learned.
func (r *Resolver) reverse(q *query) []byte {
	addr, ok := reverseAddr(q.name)
	if !ok {
		return q.answer(dnsmessage.RCodeNameError, nil)
	}
	names := r.Table.Names(addr)
	if len(names) == 0 {
		return q.answer(dnsmessage.RCodeNameError, nil)
	}
	name, err := dnsmessage.NewName(names[len(names)-1] + ".")
	if err != nil {
		return q.answer(dnsmessage.RCodeServerFailure, nil)
	}
	return q.answer(dnsmessage.RCodeSuccess, []dnsmessage.Resource{{
		Header: q.header(hostsTTL),
		Body:   &dnsmessage.PTRResource{PTR: name},
	}})
}

// reverseAddr reads 4.3.2.1.in-addr.arpa and the long form for IPv6.
func reverseAddr(name string) (netip.Addr, bool) {
	if s, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		l := strings.Split(s, ".")
		if len(l) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(l[3] + "." + l[2] + "." + l[1] + "." + l[0])
		return a, err == nil
	}
	s, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(s) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		n := strings.IndexByte("0123456789abcdef", s[62-2*i])
		if n < 0 || i > 0 && s[63-2*i] != '.' {
			return netip.Addr{}, false
		}
		b[i/2] = b[i/2]<<4 | byte(n)
	}
	return netip.AddrFrom16(b), true
}
