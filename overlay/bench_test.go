package overlay

import (
	"context"
	"fmt"
	"os"
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
	s := create(b, root)
	for i := range files {
		name := fmt.Sprintf("d%d/f%d", i%100, i)
		for _, dir := range []string{root, s.Roots()[0].Upper} {
			text := "old content"
			if dir != root {
				if i >= changed {
					continue
				}
				text = "new content"
			}
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	return s
}

func BenchmarkChanges(b *testing.B) {
	s := changed(b, 10_000, 20)
	for b.Loop() {
		n := 0
		for _, err := range s.Changes() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 20 {
			b.Fatalf("%d changes", n)
		}
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
