//go:build linux

package broker

import (
	"bytes"
	"net/netip"
	"testing"
)

// FuzzParse gives arbitrary frames to the relay. It must not read beyond their end, and what it understood must be the
// same after it was sent on.
func FuzzParse(f *testing.F) {
	for _, ends := range [][2]string{{"192.0.0.8:1000", "198.51.100.1:53"}, {"[fd6e:7372:756e::1]:1000", "[2001:db8::1]:443"}} {
		from, to := netip.MustParseAddrPort(ends[0]), netip.MustParseAddrPort(ends[1])
		frame := append(make([]byte, headers(to.Addr())), "question"...)
		udp(frame, from, to)
		d, ok := parse(frame)
		if !ok || d.from != from || d.to != to || string(d.payload) != "question" {
			f.Fatalf("%v is understood as %+v, %v", ends, d, ok)
		}
		f.Add(frame)
		f.Add(unreachable(&d))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		d, ok := parse(bytes.Clone(frame))
		if !ok {
			return
		}
		if len(d.ip) > len(frame) || len(d.payload) > len(d.ip) {
			t.Fatalf("more than there is: %+v", d)
		}
		if e, ok := parse(unreachable(&d)); !ok || e.from.Addr() != d.to.Addr() || e.to.Addr() != d.from.Addr() {
			t.Fatalf("an error for %+v is %+v, %v", d, e, ok)
		}
		if d.payload == nil || len(d.payload) > 60000 {
			return
		}
		again := append(make([]byte, headers(d.to.Addr())), d.payload...)
		udp(again, d.from, d.to)
		if e, ok := parse(again); !ok || e.from != d.from || e.to != d.to || !bytes.Equal(e.payload, d.payload) {
			t.Fatalf("%+v became %+v, %v", d, e, ok)
		}
	})
}
