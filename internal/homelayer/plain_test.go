//go:build linux

package homelayer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestPlainRenames: where no rename has flags, as in a home directory on NFS, a layer is made, kept and removed all the
// same.
func TestPlainRenames(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	home := filepath.Dir(filepath.Dir(path))
	testenv.Tree(t, home, "f: old")
	if err := testenv.WithPlainRename(func() {
		a := take(t, path)
		testenv.Tree(t, a.Upper(), "f: 1", "d: file", "e/f: 1")
		later(t, a.Upper())
		b := take(t, path)
		testenv.Tree(t, b.Upper(), "f: 2", "d/f: 2", "e/g: 2", "n/f: 2")
		release(t, a)
		release(t, b)
		for name, want := range map[string]string{"e/f": "1", "e/g": "2", "n/f": "2"} {
			if got, err := os.ReadFile(filepath.Join(path, upperName, name)); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if list, err := Keep(path, home, "n", KeepOptions{}); err != nil || len(list) != 1 || list[0].Err != nil {
			t.Errorf("%+v, %v", list, err)
		}
		list, err := Keep(path, home, "f", KeepOptions{Replace: true})
		if err != nil || len(list) != 1 || list[0].Err != nil {
			t.Fatalf("%+v, %v", list, err)
		}
		if old, err := os.ReadFile(list[0].Old); string(old) != "old" {
			t.Errorf("replaced: %q, %v", old, err)
		}
		if got, err := os.ReadFile(filepath.Join(home, "f")); err != nil || string(got) == "old" {
			t.Errorf("kept: %q, %v", got, err)
		}
		if left, _ := filepath.Glob(home + "/" + keptBegin + "*"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
