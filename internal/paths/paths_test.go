package paths

import "testing"

func TestInside(t *testing.T) {
	for _, c := range []struct {
		p, dir string
		want   bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/", "/", true}, {"/a", "/", true},
	} {
		if got := Inside(c.p, c.dir); got != c.want || InAny(c.p, []string{"/none", c.dir}) != c.want {
			t.Errorf("%s in %s: %t", c.p, c.dir, got)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, sorted := range [][]string{
		{".", "a", "a/b", "a/b/c", "a/b.c", "a\x01", "a-b", "a.b", "a.b/c", "b"},
		{"/", "/a", "/a/b", "/a/b/c", "/a-b"},
	} {
		for i, a := range sorted {
			for j, b := range sorted {
				if got := Compare(a, b); got < 0 != (i < j) || got == 0 != (i == j) {
					t.Errorf("%q, %q: %d", a, b, got)
				}
			}
		}
	}
}
