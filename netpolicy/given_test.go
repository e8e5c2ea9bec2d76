//go:build linux

package netpolicy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestNamesOfOneAddress: a server that has one address for any number of names does not make the table larger, and
// closes nothing that another name opens.
func TestNamesOfOneAddress(t *testing.T) {
	table, err := NewTable(MustParse("*.many.test:80", "one.test:443", "two.test:8080", "long.many.test:80"))
	if err != nil {
		t.Fatal(err)
	}
	var now time.Duration
	table.SetClock(func() time.Duration { return now })
	addr := netip.MustParseAddr("203.0.113.7")
	learn := func(name string, ttl time.Duration) {
		t.Helper()
		if told, err := table.Learn(name, []Answer{{addr, ttl}}); err != nil || len(told) != 1 {
			t.Fatal(name, told, err)
		}
	}
	learn("one.test", 2*time.Hour)
	learn("long.many.test", time.Hour)
	for i := range 20 * maxGiven {
		learn(fmt.Sprintf("n%d.many.test", i), time.Duration(i%7)*time.Second)
		if i == maxGiven/2 {
			learn("two.test", time.Minute)
		}
	}
	names := table.Names(addr)
	if len(names) > maxGiven+3 || names[len(names)-1] != fmt.Sprintf("n%d.many.test", 20*maxGiven-1) {
		t.Errorf("%d names, the last of which is %s", len(names), names[len(names)-1])
	}
	for _, name := range []string{"one.test", "two.test", "long.many.test"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is forgotten", name)
		}
	}
	for _, c := range []struct {
		at   time.Duration
		open []uint16
	}{{0, []uint16{80, 443, 8080}}, {Grace + 30*time.Second, []uint16{80, 443, 8080}}, {Grace + 2*time.Minute, []uint16{80, 443}}, {Grace + 61*time.Minute, []uint16{443}}, {Grace + 3*time.Hour, nil}} {
		now = c.at
		for _, port := range []uint16{80, 443, 8080} {
			if got := table.Decide(TCP, netip.AddrPortFrom(addr, port)).Allowed; got != slices.Contains(c.open, port) {
				t.Errorf("after %s port %d: %t", c.at, port, got)
			}
		}
	}
}

// TestDueSooner: an address that is to be looked at sooner and sooner is not listed again each time for ever.
func TestDueSooner(t *testing.T) {
	table, err := NewTable(MustParse("*:80"))
	if err != nil {
		t.Fatal(err)
	}
	var now time.Duration
	table.SetClock(func() time.Duration { return now })
	addr := netip.MustParseAddr("203.0.113.7")
	const many = 5000
	for i := range many {
		if _, err := table.Learn(fmt.Sprintf("n%d.test", i), []Answer{{addr, (many - time.Duration(i)) * time.Second}}); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for _, list := range table.due {
		listed += len(list)
	}
	if listed > 4 {
		t.Errorf("one address is listed %d times", listed)
	}
	now = Grace + 2*many*time.Second
	table.Expire()
	if len(table.known) != 0 || len(table.due) != 0 {
		t.Errorf("at the end %d addresses are known, and %d seconds are left", len(table.known), len(table.due))
	}
}
