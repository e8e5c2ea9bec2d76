//go:build linux

package tree

import (
	"testing"
)

func TestComparePaths(t *testing.T) {
	sorted := []string{".", "a", "a/b", "a/b/c", "a/b.c", "a\x01", "a-b", "a.b", "a.b/c", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := ComparePaths(a, b); got < 0 != (i < j) || got == 0 != (i == j) {
				t.Errorf("%q, %q: %d", a, b, got)
			}
		}
	}
}
