//go:build linux

package homelayer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNews: each path is news once, and a cache never is.
func TestNews(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	home := filepath.Dir(filepath.Dir(path))
	testenv.Tree(t, home, ".profile: old", ".config/a: old")
	caches := []string{".cache", "go/pkg", ".local/share/uv"}
	want := func(list ...string) {
		t.Helper()
		got, err := News(path, home, caches)
		if err != nil || strings.Join(got, " ") != strings.Join(list, " ") {
			t.Errorf("got %q, %v, not %q", got, err, list)
		}
	}
	write := func(tree ...string) {
		t.Helper()
		l := take(t, path)
		testenv.Tree(t, l.Upper(), tree...)
		release(t, l)
	}
	write(".cache/x: 1", "go/pkg/mod/f: 1", ".local/share/uv/f: 1")
	want()
	write(".profile: new", ".config/b: 1", "new/dir/f: 1", "go/bin/tool: 1")
	want(".config/b", ".profile", "go/bin/", "new/")
	write(".profile: newer", "new/dir/g: 1")
	want()
	write(".config/a: new")
	want(".config/a")
	// However long the reported names were, the next one is reported.
	if err := os.WriteFile(filepath.Join(path, toldName), bytes.Repeat([]byte{'x'}, mostTold), 0o600); err != nil {
		t.Fatal(err)
	}
	write(".config/c: 1")
	want(".config/a", ".config/b", ".config/c", ".profile", "go/bin/", "new/")
	want()
}
