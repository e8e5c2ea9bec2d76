//go:build linux

package overlay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func BenchmarkCreateRemove(b *testing.B) {
	root := project(b, `true`)
	state := filepath.Join(tempDir(b), "state")
	for b.Loop() {
		s, err := Create(Options{Roots: []string{root}, Dir: state})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

// changed makes a project of many files, and a session that changed some.
func changed(b *testing.B, files, changed int) *Session {
	b.Helper()
	root := project(b, `true`)
	fill := func(dir, text string, n int) {
		for i := range n {
			p := filepath.Join(dir, fmt.Sprintf("d%d/f%d", i%100, i))
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	fill(root, "old content", files)
	s := create(b, root)
	fill(s.Roots()[0].Upper, "new content, longer", changed)
	return s
}

// The two sizes of projects for which there is a promise: the time for Changes does not depend on the project, and is
// little more than the time to find the changed files.
func BenchmarkChanges(b *testing.B) {
	for _, size := range []struct{ files, changed int }{{100_000, 20}, {10_000, 10_000}} {
		s := changed(b, size.files, size.changed)
		b.Run(fmt.Sprintf("%d of %d", size.changed, size.files), func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range s.Changes() {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != size.changed {
					b.Fatalf("%d changes", n)
				}
			}
		})
		// What there is to compare it with: every object's name, and its type and size.
		b.Run(fmt.Sprintf("find %d", size.changed), func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command("find", s.Roots()[0].Upper, "-printf", "%y %s %p\n").Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A commit, with all waiting for the disk, and its undo.
func BenchmarkCommitUndo(b *testing.B) {
	s := changed(b, 10_000, 20)
	for b.Loop() {
		if err := s.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := s.Undo(context.Background(), UndoOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
