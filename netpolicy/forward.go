package netpolicy

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	tryTimeout = 2 * time.Second // for one server, once
	rounds     = 2               // how often all servers are tried
	maxWrong   = 32              // packets that are not the answer, until one gives up
	maxChain   = 16              // CNAMEs from the name to its addresses
)

var (
	errWrong     = errors.New("the reply does not answer the query")
	errTruncated = errors.New("the answer is truncated")
)

// forward asks the servers for the addresses of a name.
func (r *Resolver) forward(ctx context.Context, name string, typ dnsmessage.Type) ([]Answer, dnsmessage.RCode) {
	for range rounds {
		for _, server := range r.Upstreams {
			if ctx.Err() != nil {
				return nil, dnsmessage.RCodeServerFailure
			}
			m, err := r.ask(ctx, server, name, typ)
			if err != nil {
				continue
			}
			switch m.RCode {
			case dnsmessage.RCodeSuccess:
				return addresses(m.Answers, name, typ), m.RCode
			case dnsmessage.RCodeNameError:
				return nil, m.RCode
			}
		}
	}
	return nil, dnsmessage.RCodeServerFailure
}

// ask asks one server, over UDP and if that is too small over TCP.
func (r *Resolver) ask(ctx context.Context, server netip.AddrPort, name string, typ dnsmessage.Type) (*dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	m, err := r.exchange(ctx, "udp", server, name, typ)
	if err == errTruncated {
		m, err = r.exchange(ctx, "tcp", server, name, typ)
	}
	return m, err
}

// exchange asks once. Each question uses a new socket, so that a forger of answers has to guess its port too.
func (r *Resolver) exchange(ctx context.Context, network string, server netip.AddrPort, name string, typ dnsmessage.Type) (*dnsmessage.Message, error) {
	var random [2 + 254]byte
	if err := fill(random[:]); err != nil {
		return nil, err
	}
	wire := name + "."
	if r.MixCase {
		wire = mixCase(wire, random[2:])
	}
	n, err := dnsmessage.NewName(wire)
	if err != nil {
		return nil, err
	}
	question := dnsmessage.Question{Name: n, Type: typ, Class: dnsmessage.ClassINET}
	ask := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: binary.BigEndian.Uint16(random[:]), RecursionDesired: true},
		Questions: []dnsmessage.Question{question},
	}
	b, err := ask.Pack()
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if network == "tcp" {
		if err := writeTCP(c, b); err != nil {
			return nil, err
		}
		if b, err = readTCP(c); err != nil {
			return nil, err
		}
		return r.check(b, ask.ID, question, false)
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for range maxWrong {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		m, err := r.check(buf[:n], ask.ID, question, true)
		if err != errWrong {
			return m, err
		}
	}
	return nil, errWrong
}

// check parses a packet, and says whether it is the answer to the question.
func (r *Resolver) check(b []byte, id uint16, asked dnsmessage.Question, mayBeTruncated bool) (*dnsmessage.Message, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.ID != id || !h.Response || h.OpCode != 0 {
		return nil, errWrong
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 || questions[0].Type != asked.Type || questions[0].Class != asked.Class {
		return nil, errWrong
	}
	if got, want := questions[0].Name.String(), asked.Name.String(); got != want && (r.MixCase || !strings.EqualFold(got, want)) {
		return nil, errWrong
	}
	if h.Truncated {
		if mayBeTruncated {
			return nil, errTruncated
		}
		return nil, errWrong
	}
	m := &dnsmessage.Message{Header: h}
	if m.Answers, err = p.AllAnswers(); err != nil {
		return nil, errWrong
	}
	return m, nil
}

// addresses follows the chain of CNAMEs from a name, and returns the addresses at its end, with the shortest time to
// live on the way. Records outside the chain are ignored.
func addresses(list []dnsmessage.Resource, name string, typ dnsmessage.Type) []Answer {
	ttl := maxTTL
	shorten := func(h dnsmessage.ResourceHeader) time.Duration {
		return min(ttl, time.Duration(h.TTL)*time.Second)
	}
	for range maxChain {
		var found []Answer
		next := ""
		for _, rr := range list {
			if rr.Header.Class != dnsmessage.ClassINET || wireName(rr.Header.Name) != name {
				continue
			}
			switch body := rr.Body.(type) {
			case *dnsmessage.AResource:
				if typ == dnsmessage.TypeA {
					found = append(found, Answer{netip.AddrFrom4(body.A), shorten(rr.Header)})
				}
			case *dnsmessage.AAAAResource:
				// A mapped address is one of the other family, and would be taken for it.
				if a := netip.AddrFrom16(body.AAAA); typ == dnsmessage.TypeAAAA && !a.Is4In6() {
					found = append(found, Answer{a, shorten(rr.Header)})
				}
			case *dnsmessage.CNAMEResource:
				if next == "" {
					next, ttl = wireName(body.CNAME), shorten(rr.Header)
				}
			}
		}
		if len(found) > 0 || next == "" {
			return found[:min(len(found), maxAnswers)]
		}
		name = next
	}
	return nil
}

// mixCase changes letters to upper case as random bits say.
func mixCase(name string, random []byte) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' && random[i]&1 == 1 {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
