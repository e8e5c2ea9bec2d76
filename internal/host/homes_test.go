//go:build linux

package host

import (
	"slices"
	"testing"
)

// TestHomes: $HOME adds a home directory, it takes none away.
func TestHomes(t *testing.T) {
	t.Setenv("HOME", "")
	own := Homes()
	for home, want := range map[string][]string{
		"":             own,
		"relative":     own,
		"/other/home/": append(slices.Clip(own), "/other/home"),
	} {
		t.Setenv("HOME", home)
		if got := Homes(); !slices.Equal(got, want) {
			t.Errorf("HOME=%s: %q, want %q", home, got, want)
		}
	}
}
