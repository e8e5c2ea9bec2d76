//go:build linux

package store

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestPartial: a sum of disk usage is partial if a command made a directory unreadable, but not because of directories
// that the kernel makes unreadable for its own use.
func TestPartial(t *testing.T) {
	testenv.NeedUser(t) // root can list directories of any mode
	for closed, want := range map[string]bool{
		WorkName(0) + "/work": false, WorkName(11) + "/work": false, ScratchWork(1) + "/work": false, ScratchUpper(1) + "/work": true,
		ScratchUpper(1) + "/work1/work": true, ScratchName + "/work": true,
		"upper/overlay1/work": true, "upper/work": true,
		"upper/work/overlay1/work": true, "upper/overlay1/d": true, "work/overlay1/work2": true, "work/a/b/work": true,
	} {
		dir := testenv.Dir(t)
		at := filepath.Join(dir, closed)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(at, 0); err != nil {
			t.Fatal(err)
		}
		top, err := tree.OpenAbs(dir, unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Close()
		if sum, err := DiskUsage(t.Context(), top); err != nil || sum.Partial != want {
			t.Errorf("%s: %+v, %v", closed, sum, err)
		}
	}
}
