//go:build linux

package project

import (
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLooker: regular files are there, in whatever order they are looked at. Nothing is there behind a link.
func TestLooker(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "f: 1", "a/f: 12", "a/b/f: 123", "link => a", "filelink => f")
	root, err := openRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &looker{root: root, fd: sys.None}
	defer l.close()
	for _, tc := range []struct {
		path string
		size int64 // negative: there is no such file
	}{
		{"a/f", 2}, {"a/none", -1}, {"a/f/g", -1}, {"a/b/f", 3}, {"f", 1}, {".", -1}, {"a", -1}, {"none/f", -1}, {"none/g", -1},
		{"a/f", 2}, {"link", -1}, {"link/f", -1}, {"filelink", -1}, {"a/b/f", 3},
	} {
		st, ok := l.look(tc.path)
		if ok != (tc.size >= 0) || ok && st.Size != tc.size {
			t.Errorf("%s: %v, %d bytes", tc.path, ok, st.Size)
		}
	}
	gone := &looker{fd: sys.None}
	if _, ok := gone.look("f"); ok {
		t.Error("a file of a root that is gone is there")
	}
	gone.close()
}
