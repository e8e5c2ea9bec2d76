//go:build linux

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// TestTempElsewhere: where the first directory cannot be written to, the next one is taken. The error is about the
// first one. With TMPDIR there is no other.
func TestTempElsewhere(t *testing.T) {
	dir := testenv.Dir(t)
	missing := filepath.Join(dir, "missing")
	w, err := newTemp([]string{missing, dir})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if filepath.Dir(w.Path) != realAsFar(dir) {
		t.Errorf("%s is not in %s", w.Path, dir)
	}
	if _, err := newTemp([]string{missing, filepath.Join(dir, "other")}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	t.Setenv("TMPDIR", missing)
	if list := tempParents(); len(list) != 1 || list[0] != missing {
		t.Errorf("%s", list)
	}
}

// TestTempUmask: a umask that takes rights from the owner does not make the directory useless.
func TestTempUmask(t *testing.T) {
	dir := testenv.Dir(t)
	mask := syscall.Umask(0o777)
	w, err := newTemp([]string{dir})
	syscall.Umask(mask)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if fi, err := os.Stat(w.Path); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
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
