//go:build linux

package mountprog

import (
	"slices"
	"testing"
)

// TestHideBelow: below what is hidden there is nothing to hide.
func TestHideBelow(t *testing.T) {
	for _, c := range []struct{ paths, want []string }{
		{[]string{"x/y", "x"}, []string{"x"}},
		{[]string{"x", "x-y", "x/y/z", "xy/z"}, []string{"x", "x-y", "xy/z"}},
		{[]string{"b/c", "a", "b/d"}, []string{"a", "b/c", "b/d"}},
		{nil, nil},
	} {
		if got := topmost(c.paths); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.paths, got, c.want)
		}
	}
}
