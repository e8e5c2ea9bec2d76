//go:build linux

package cgroup

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
)

// loaded are programs, in a test that leaves nothing.
func loaded(t *testing.T) *Programs {
	t.Helper()
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	p, err := Load()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPERM) {
		testenv.Skip(t, "bpf", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCloseMeanwhile: programs that are closed while a sandbox begins refuse it, and nothing is left.
func TestCloseMeanwhile(t *testing.T) {
	p := loaded(t)
	table, err := netpolicy.NewTable(netpolicy.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.child()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	o := Options{Publish: []uint16{80}, Decided: func(Decision) { t.Error("something was decided") }}
	if _, err := p.enforceIn(g, table, o); !errors.Is(err, errClosed) {
		t.Errorf("in a cgroup from before: %v", err)
	}
	if _, err := p.Enforce(table, o); err == nil {
		t.Error("Enforce succeeds after Close")
	}
}
