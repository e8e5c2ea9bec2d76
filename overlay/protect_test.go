//go:build linux

package overlay

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// What is protected is held back however it was changed, and nothing else is.
func TestProtect(t *testing.T) {
	testenv.Leaks(t)
	const before = `mkdir -p a/b c; echo 1 > a/b/x.lock; echo 1 > a/y; echo 1 > c/z; echo 1 > top; ln -s top l`
	for _, tt := range []struct {
		name, pattern, run string
		held               []string
	}{
		{"written", "top", `echo 2 > top; echo 2 > c/z`, []string{"top"}},
		{"removed", "top", `rm top; rm c/z`, []string{"top"}},
		{"another mode", "top", `chmod 700 top`, []string{"top"}},
		{"a link in its place", "top", `ln -sf c/z top`, []string{"top"}},
		{"renamed", "top", `mv top new`, []string{"top"}},
		{"below a directory", "a", `echo 2 > a/b/new; echo 2 > c/new`, []string{"a/b/new"}},
		{"a directory above is removed", "**/*.lock", `rm -r a c`, []string{"a"}},
		{"a directory above is renamed", "**/*.lock", `mv a n; mv c d`, []string{"a", "n/b/x.lock"}},
		{"a file in the place of one above", "a/b/x.lock", `rm -r a; echo 2 > a`, []string{"a"}},
		{"another directory in the place of one above", "a/b/x.lock", `rm -r a; mkdir a; echo 2 > a/y`, []string{"a/b"}},
		{"a new one", "new/*.lock", `mkdir new; echo 1 > new/x.lock; echo 1 > new/x`, []string{"new/x.lock"}},
		{"nothing of it", "**/none", `rm -r a; echo 2 > top`, nil},
		{"the target of a link", "l", `echo 2 > l`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := project(t, before)
			s := create(t, root)
			if err := s.Protect(filepath.Join(root, tt.pattern)); err != nil {
				t.Fatal(err)
			}
			sandbox(t, s, tt.run)
			var held []string
			for c, err := range s.Changes() {
				if err != nil {
					t.Fatal(err)
				}
				if c.Runs == Protected {
					held = append(held, c.Path)
				}
			}
			if !slices.Equal(held, tt.held) {
				t.Errorf("%q is held back, want %q", held, tt.held)
			}
		})
	}
	root := project(t, before)
	for _, bad := range []string{"top", "!/a", "/a[", "$HOME/x", "/\x00"} {
		if _, err := Create(Options{Roots: []string{root}, Dir: t.TempDir(), Protect: []string{bad}}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
