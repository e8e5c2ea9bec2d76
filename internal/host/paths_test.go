//go:build linux

package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLinkless compares linkless with filepath.EvalSymlinks.
func TestLinkless(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"d/e", "closed/in"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "d/f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": "d", "d/up": "..", "nothing": "missing", "loop": "loop", "d/tofile": "f"} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(top, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(top, "closed"), 0o700)
	for _, name := range []string{
		"", "d", "d/e/", "d//e/../f", "d/f", "d/f/", "d/f/x", "missing", "d/missing/x", "link", "link/e", "link/missing", "d/up/d/e", "d/tofile",
		"nothing", "nothing/x", "loop", "closed", "closed/in", "link/../d",
	} {
		path := top + "/" + name
		want, wantErr := filepath.EvalSymlinks(path)
		got, err := linkless(path)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %s, %v, want %s, %v", name, got, err, want, wantErr)
		}
	}
}

// TestHomeView: names are found where directories on the way are links, too.
func TestHomeView(t *testing.T) {
	for _, link := range []string{"", ".local", ".local/share", ".config"} {
		home := t.TempDir()
		other := t.TempDir()
		for _, name := range []string{".config/a", ".local/share/B/c", ".d"} {
			if err := os.MkdirAll(filepath.Join(home, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if link != "" {
			if err := os.Rename(filepath.Join(home, link), filepath.Join(other, "x")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(other, "x"), filepath.Join(home, link)); err != nil {
				t.Fatal(err)
			}
		}
		fd, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		v := newHomeView(fd)
		var has []string
		for _, name := range []string{".config/a", ".config/b", ".config/a/b", ".local/share/B", ".local/share/B/c", ".local/share/C", ".local/x", ".d", ".e", ".e/f"} {
			if v.exists(name) {
				has = append(has, name)
			}
		}
		if want := []string{".config/a", ".local/share/B", ".local/share/B/c", ".d"}; !slices.Equal(has, want) {
			t.Errorf("%q is a link: %q, want %q", link, has, want)
		}
	}
}
