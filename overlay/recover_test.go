//go:build linux

package overlay

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// A commit that was under way when the list of interrupted sessions was read, and has ended since, is not finished once
// more.
func TestRecoverEnded(t *testing.T) {
	testenv.Leaks(t)
	s := create(t, project(t, `echo old > f`))
	sandbox(t, s, `echo new > f`)
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, statePath := s.ID(), filepath.Dir(s.Dir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, state, err := openStateDir(statePath, false)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	if r, err := recoverOne(statePath, state, id); err != nil || r.What != "" {
		t.Errorf("%+v, %v", r, err)
	}
}
