package paths

import (
	"slices"
	"testing"
)

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
	list := []string{"/a/b", "/a-b", "/a", "/a/b/c", "/"}
	slices.SortFunc(list, Compare)
	if want := []string{"/", "/a", "/a/b", "/a/b/c", "/a-b"}; !slices.Equal(list, want) {
		t.Errorf("%q", list)
	}
}
