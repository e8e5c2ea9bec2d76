//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPlace: home directories are never where a sandbox has something of its own, where they would not last.
func TestPlace(t *testing.T) {
	cache := "/var/cache"
	if os.Getuid() != 0 {
		cache = "/usr"
	}
	t.Setenv("XDG_CACHE_HOME", "/usr")
	for dir, want := range map[string]string{"/usr": "/usr", "/": "/", "/tmp": cache, "/dev": cache} {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{dir, link} {
			t.Setenv("TMPDIR", name)
			if got, err := place(); got != want || err != nil {
				t.Errorf("%s, which is %s: %q, %v, want %q", name, dir, got, err, want)
			}
		}
	}
	if os.Getuid() != 0 {
		t.Setenv("TMPDIR", "/tmp")
		t.Setenv("XDG_CACHE_HOME", "/dev")
		if got, err := place(); err == nil {
			t.Errorf("place() = %q, although all candidates are private", got)
		}
	}
}
