package netpolicy

import (
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	typeSVCB  = dnsmessage.Type(64)
	typeHTTPS = dnsmessage.Type(65)
)

// parseQuery reads a question of the sandbox. A code other than success is the answer to give; without ok there is no
// answer.
func parseQuery(packet []byte) (q *query, code dnsmessage.RCode, ok bool) {
	var p dnsmessage.Parser
	h, err := p.Start(packet)
	if err != nil || h.Response {
		return nil, 0, false
	}
	q = &query{id: h.ID, rd: h.RecursionDesired, size: 512}
	if h.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented, true
	}
	// The counts are looked at first: to skip what is not wanted is to parse it.
	if n := packet[4:12]; n[0] != 0 || n[1] != 1 || n[2]|n[3]|n[4]|n[5]|n[6] != 0 || n[7] > 1 || h.Truncated {
		return q, dnsmessage.RCodeFormatError, true
	}
	question, err := p.Question()
	if err != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	if err := p.SkipAllQuestions(); err != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	if packet[11] == 1 {
		_ = p.SkipAllAnswers() // there are none
		_ = p.SkipAllAuthorities()
		rh, err := p.AdditionalHeader()
		if err != nil || rh.Type != dnsmessage.TypeOPT {
			return q, dnsmessage.RCodeFormatError, true
		}
		q.edns = true
		q.size = min(max(512, int(rh.Class)), maxUDP)
		if p.SkipAdditional() != nil || rh.TTL>>16&0xff != 0 { // a later version of EDNS
			return q, dnsmessage.RCodeFormatError, true
		}
	}
	q.question = question
	if question.Class != dnsmessage.ClassINET {
		return q, dnsmessage.RCodeRefused, true
	}
	q.name = wireName(question.Name)
	return q, dnsmessage.RCodeSuccess, true
}

// wireName returns the canonical form of a name in a packet; "" if it is not the name of a host. Bytes that are not
// ASCII have no meaning there, and are refused.
func wireName(n dnsmessage.Name) string {
	for _, c := range n.Data[:n.Length] {
		if c >= 0x80 {
			return ""
		}
	}
	name, err := CanonicalName(string(n.Data[:n.Length]))
	if err != nil {
		return ""
	}
	return name
}

func (q *query) header(ttl time.Duration) dnsmessage.ResourceHeader {
	return dnsmessage.ResourceHeader{
		Name:  q.question.Name,
		Class: dnsmessage.ClassINET,
		TTL:   uint32(min(max(ttl, 0), maxToldTTL) / time.Second),
	}
}

// resources returns the addresses of the family that was asked for.
func (q *query) resources(answers []Answer) (list []dnsmessage.Resource) {
	for _, a := range answers {
		switch {
		case a.Addr.Is4() && q.question.Type == dnsmessage.TypeA:
			list = append(list, dnsmessage.Resource{Header: q.header(a.TTL), Body: &dnsmessage.AResource{A: a.Addr.As4()}})
		case a.Addr.Is6() && q.question.Type == dnsmessage.TypeAAAA:
			list = append(list, dnsmessage.Resource{Header: q.header(a.TTL), Body: &dnsmessage.AAAAResource{AAAA: a.Addr.As16()}})
		}
	}
	return list
}

// answer packs an answer. If it is too large, its content is left out, so that the sandbox asks again over TCP.
func (q *query) answer(code dnsmessage.RCode, list []dnsmessage.Resource) []byte {
	m := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: q.id, Response: true, RecursionDesired: q.rd, RecursionAvailable: true, RCode: code,
		},
		Answers: list,
	}
	if q.question.Type != 0 {
		m.Questions = []dnsmessage.Question{q.question}
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		if h.SetEDNS0(maxUDP, 0, false) == nil {
			m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
		}
	}
	b, err := m.Pack()
	if err == nil && len(b) > q.size {
		m.Truncated, m.Answers = true, nil
		b, err = m.Pack()
	}
	if err != nil {
		return nil
	}
	return b
}

// failed answers a query that there is no time for.
func failed(packet []byte) []byte {
	q, code, ok := parseQuery(packet)
	if !ok {
		return nil
	}
	if code == dnsmessage.RCodeSuccess {
		code = dnsmessage.RCodeServerFailure
	}
	return q.answer(code, nil)
}
