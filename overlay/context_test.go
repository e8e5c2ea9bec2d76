//go:build linux

package overlay

import (
	"context"
	"errors"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestCopyingEnds: a context ends the copying of a project, and nothing is left of it.
func TestCopyingEnds(t *testing.T) {
	testenv.Leaks(t)
	root, state := project(t, `mkdir d; printf 1 > d/f`), testenv.Dir(t)+"/state"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CreateContext(ended, Options{Roots: []string{root}, Dir: state, Engine: EngineCopy}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if names := entries(t, state); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	s := createWith(t, EngineCopy, root)
	sandbox(t, s, `printf 2 > d/f`)
	if err := s.ResumeContext(ended, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantChanges(t, s, "M d/f")
	if err := s.Preserve(t.Context(), []Change{{Kind: Modified, Root: "/elsewhere", Path: "f"}}); err == nil {
		t.Error("versions of a root that there is not were kept")
	}
}
