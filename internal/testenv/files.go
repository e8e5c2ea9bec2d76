//go:build linux

package testenv

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			other := "the end"
			if i < len(w) {
				other = w[i]
			}
			t.Fatalf("%s:%d differs (-update rewrites it):\n got %s\nwant %s", name, i+1, g[i], other)
		}
	}
	t.Fatalf("%s has %d lines more", name, len(w)-len(g))
}

// Tree makes files in dir from one-line texts: "d/" is a directory, "f" an empty file, "f: text" one with content, "a
// => b" a symbolic link a with the text b. Parents are made as needed.
func Tree(t testing.TB, dir string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		var err error
		switch name, rest, _ := cutAny(line); {
		case strings.HasSuffix(line, "/"):
			err = os.MkdirAll(filepath.Join(dir, line), 0o755)
		default:
			name = filepath.Join(dir, name)
			if err = os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				break
			}
			if strings.Contains(line, " => ") {
				err = os.Symlink(rest, name)
			} else {
				err = os.WriteFile(name, []byte(rest), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func cutAny(line string) (name, rest string, found bool) {
	if name, rest, found = strings.Cut(line, " => "); found {
		return name, rest, true
	}
	return strings.Cut(line, ": ")
}

// Dir is a temporary directory that a user without privileges can reach. It is removed after the test, but not if
// anything is still mounted in it: that may be the host's.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// DiskDir is a Dir that is not in memory: in /var/tmp if the others are.
func DiskDir(t testing.TB) string {
	t.Helper()
	for _, parent := range []string{os.TempDir(), "/var/tmp"} {
		if onTmpfs(parent) {
			continue
		}
		dir, err := os.MkdirTemp(parent, "nsrun-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := removeAll(dir); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	Skip(t, "disk", "temporary files are in memory here")
	return ""
}

// removeAll is os.RemoveAll for directories in which nothing is mounted.
func removeAll(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 4 && (f[4] == dir || strings.HasPrefix(f[4], dir+"/")) {
			return fmt.Errorf("%s is mounted: %s is not removed", f[4], dir)
		}
	}
	if err = os.RemoveAll(dir); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// If nsrun was killed, an overlay's work directories are left, which the kernel has closed to all.
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // before it is read
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
