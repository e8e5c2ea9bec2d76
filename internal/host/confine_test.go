//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestTemp: a directory for temporary files belongs to the caller alone. It is removed at the end or, if its program
// was killed, by the next one.
func TestTemp(t *testing.T) {
	dir := testenv.Dir(t)
	t.Setenv("TMPDIR", dir)
	used, err := NewTemp()
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(used.Path); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	left := filepath.Join(dir, tempPrefix+"left")
	testenv.Tree(t, left, "closed/f")
	if err := os.Chmod(filepath.Join(left, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, tempPrefix+"file", "other/")
	RemoveTemps()
	for name, want := range map[string]bool{used.Path: true, left: false, filepath.Join(dir, "other"): true} {
		if _, err := os.Lstat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	used.Close()
	if _, err := os.Lstat(used.Path); err == nil {
		t.Error("the private directory is left at the end")
	}
}

func TestRealAsFar(t *testing.T) {
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "real/f", "link => real", "loop => loop")
	dir = realAsFar(dir)
	for name, want := range map[string]string{
		"/": "/", dir + "/link/f": dir + "/real/f", dir + "/link/missing/x": dir + "/real/missing/x", dir + "/missing/../link": dir + "/real",
		dir + "/loop/x": dir + "/loop/x",
	} {
		if got := realAsFar(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
