//go:build linux

package overlay

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// The matrix again, for file systems on which less is possible, or on which the session
// is not: whatever way objects go, the same comes of it.
func TestWays(t *testing.T) {
	testenv.Leaks(t)
	w := startWorker(t)
	for _, way := range []struct {
		name string
		set  func(*Session)
	}{
		{"no exchange", func(s *Session) { s.log.Plain = true }},
		{"another file system", func(s *Session) { s.log.Far = true }},
		{"another file system, no exchange", func(s *Session) { s.log.Far, s.log.Plain = true, true }},
		{"exchanged directories get another time", func(s *Session) { s.log.Stamps = true }},
		{"directories cannot be renamed", func(s *Session) { s.stiff = true }},
		{"another file system, directories cannot be renamed", func(s *Session) { s.log.Far, s.stiff = true, true }},
	} {
		t.Run(way.name, func(t *testing.T) {
			testenv.TakeTurns(t)
			base := tempDir(t)
			roots := []string{filepath.Join(base, "r0"), filepath.Join(base, "r1")}
			for _, r := range roots {
				if err := os.Mkdir(r, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			build, run, _ := matrix()
			before := w.must(t, job{Build: build, Roots: roots}).Seen
			s, err := Create(Options{Roots: roots, Dir: filepath.Join(base, "state")})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			way.set(s)
			seen := w.must(t, job{Mounts: s.Mounts(), Roots: roots, Ops: run}).Seen
			set, err := s.changeSet()
			if err != nil {
				t.Fatal(err)
			}
			for round := range 2 {
				if err := s.CommitWith(context.Background(), CommitOptions{AllowSpecial: true}); err != nil {
					t.Fatalf("commit %d: %v", round, err)
				}
				for _, l := range set.committed(w.see(t, roots...), seen, before, true) {
					t.Errorf("after commit %d: %s", round, l)
				}
				if err := s.Undo(context.Background(), UndoOptions{}); err != nil {
					t.Fatalf("undo %d: %v", round, err)
				}
				for _, l := range (compared{got: w.see(t, roots...), want: before}).differences() {
					t.Errorf("after undo %d: %s", round, l)
				}
			}
			if left, _ := os.ReadDir(filepath.Join(s.Dir(), tx.Name)); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
