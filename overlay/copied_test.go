//go:build linux

package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// TestChangedAtOnce: a change in a copy right after it was made counts as a change, also when the session is resumed,
// although the clock of file systems goes in steps.
func TestChangedAtOnce(t *testing.T) {
	testenv.Leaks(t)
	root := project(t, `mkdir d; echo one > f; echo one > g`)
	for range 10 {
		s := createWith(t, EngineCopy, root)
		copied := filepath.Join(s.areaPath(), store.UpperName(0))
		if err := os.WriteFile(filepath.Join(copied, "f"), []byte("two\n"), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(copied, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := s.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, s, "M d/", "M f")
		if err := s.Resume(nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, s, "M d/", "M f")
		list, err := os.ReadDir(s.Dir())
		if err != nil || slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == "clock" }) {
			t.Errorf("%v, %v", list, err)
		}
		if err := s.Discard(); err != nil {
			t.Fatal(err)
		}
	}
}
