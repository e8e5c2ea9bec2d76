//go:build linux

package cgroup

import (
	"os"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/netpolicy"
)

// TestSpare: from the second sandbox on the next one's cgroup can be made before it is wanted. It is had by one, and
// what was prepared in it is dropped when it goes.
func TestSpare(t *testing.T) {
	p := loaded(t)
	var prepared, dropped []*os.File
	spare := func() {
		p.Spare(func(f *os.File) { prepared = append(prepared, f) }, func(f *os.File) { dropped = append(dropped, f) })
	}
	enforce := func() *Enforcer {
		table, err := netpolicy.NewTable(netpolicy.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Enforce(table, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := enforce()
	if spare(); len(prepared) != 0 {
		t.Error("a cgroup was made after the first sandbox")
	}
	second := enforce()
	spare()
	if spare(); len(prepared) != 1 {
		t.Fatalf("%d cgroups were made, want 1", len(prepared))
	}
	third, fourth := enforce(), enforce()
	if third.Cgroup() != prepared[0] || fourth.Cgroup() == prepared[0] {
		t.Error("the next sandbox, and it alone, must get the cgroup")
	}
	for _, e := range []*Enforcer{first, second, third, fourth} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(dropped, prepared) {
		t.Errorf("%d of %d cgroups were dropped with the sandbox", len(dropped), len(prepared))
	}
	spare()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if len(prepared) != 2 || !slices.Equal(dropped, prepared) {
		t.Errorf("%d were made, %d dropped", len(prepared), len(dropped))
	}
	if spare(); len(prepared) != 2 {
		t.Error("a cgroup was made after Close")
	}
}
