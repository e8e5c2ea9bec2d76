//go:build linux

package overlay

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// Scratch directories that nothing was written to serve the next command; what was written
// is gone, and nothing is left when the session is closed.
func TestClearScratch(t *testing.T) {
	s := create(t, project(t, ``))
	caches := []string{project(t, `echo 1 > f`), project(t, ``)}
	top := filepath.Join(s.Dir(), store.ScratchName)
	begin := func() (list []mounts.Mount) {
		t.Helper()
		if err := s.Resume(nil); err != nil {
			t.Fatal(err)
		}
		for _, dir := range caches {
			m, err := s.Scratch(dir)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, m)
		}
		return list
	}
	end := func(list []mounts.Mount, write string) {
		t.Helper()
		if list != nil {
			runHelper(t, helperInput{list, "true", []string{s.Roots()[0].Path}})
		}
		if write != "" {
			if err := os.WriteFile(filepath.Join(top, write), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.ClearScratch(); err != nil {
			t.Fatal(err)
		}
	}
	number := func() uint64 {
		t.Helper()
		st, err := os.Stat(filepath.Join(top, "upper2"))
		if err != nil {
			t.Fatal(err)
		}
		return st.Sys().(*syscall.Stat_t).Ino
	}
	end(begin(), "")
	first := number()
	end(begin(), "")
	if number() != first {
		t.Error("an unused scratch directory was made again")
	}
	end(begin(), "upper2/new")
	if _, err := os.Stat(top); !os.IsNotExist(err) {
		t.Errorf("a used scratch directory is left: %v", err)
	}
	list := begin()
	if err := unix.Setxattr(filepath.Join(top, "upper2"), "user.x", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	end(list, "")
	if _, err := os.Stat(top); !os.IsNotExist(err) {
		t.Errorf("a scratch directory with an attribute is left: %v", err)
	}
	end(begin(), "")
	begin()
	if err := os.WriteFile(filepath.Join(top, "upper1/new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The command was never told to be over.
	begin()
	if _, err := os.Stat(filepath.Join(top, "upper1/new")); !os.IsNotExist(err) {
		t.Errorf("the next command sees what was written: %v", err)
	}
	end(nil, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(top); !os.IsNotExist(err) {
		t.Errorf("a closed session leaves its scratch directory: %v", err)
	}
}
