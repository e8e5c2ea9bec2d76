//go:build linux

package netpolicy

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// FuzzUpstream: whatever a server sends, every address in the answer was in the server's message, is one that names may
// have, and is known to the table.
func FuzzUpstream(f *testing.F) {
	name := dnsmessage.MustNewName("a.test.")
	alias := dnsmessage.MustNewName("b.test.")
	question := dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	header := func(n dnsmessage.Name) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: n, Class: dnsmessage.ClassINET, TTL: 60}
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, Response: true},
		Questions: []dnsmessage.Question{question},
		Answers: []dnsmessage.Resource{
			{Header: header(name), Body: &dnsmessage.CNAMEResource{CNAME: alias}},
			{Header: header(alias), Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 1}}},
			{Header: header(alias), Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}}},
		},
	}
	b, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	policy := MustParse("a.test:443")
	table, err := NewTable(policy)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := new(Resolver).check(b, 7, question, true)
		if err != nil {
			return
		}
		if binary.BigEndian.Uint16(b) != 7 || b[2]&0x82 != 0x80 {
			t.Fatalf("%x was taken for the answer", b)
		}
		told, err := table.Learn("a.test", addresses(m.Answers, "a.test", dnsmessage.TypeA))
		if err != nil && len(told) > 0 {
			t.Fatalf("told %v with %v", told, err)
		}
		for _, a := range told {
			if _, what := special(a.Addr, nil); what != "" || !a.Addr.Is4() {
				t.Fatalf("%x: %v was told", b, a)
			}
			if !table.Decide(TCP, netip.AddrPortFrom(a.Addr, 443)).Allowed {
				t.Fatalf("%v was learned, but is not allowed", a)
			}
		}
	})
}
