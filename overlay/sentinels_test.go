//go:build linux

package overlay

import (
	"errors"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSentinels: errors.Is tells why a session cannot be used.
func TestSentinels(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `printf 1 > f`)
	one := create(t, root)
	sandbox(t, one, `printf 2 > f`)
	state := one.Info().Dir[:len(one.Info().Dir)-len(one.ID())-1]
	if _, err := Open(state, one.ID()); !errors.Is(err, ErrBusy) {
		t.Errorf("open: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two, err := Create(Options{Roots: []string{root}, Dir: state, On: one.ID()})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if err := two.Commit(t.Context()); !errors.Is(err, ErrBaseKept) {
		t.Errorf("commit: %v", err)
	}
	if one, err = Open(state, one.ID()); err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for name, err := range map[string]error{"discard": one.Discard(), "resume": one.Resume(nil), "remove": one.Remove(), "drop": one.Drop(t.Context(), "f")} {
		if !errors.Is(err, ErrBuiltOn) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	for c, err := range Clean(state, CleanOptions{Sessions: []string{one.ID()}}) {
		if !errors.Is(err, ErrBuiltOn) {
			t.Errorf("clean: %v, %v", c, err)
		}
	}
}
