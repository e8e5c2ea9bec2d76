//go:build linux

package tx

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestNumberStays: most file systems keep inode numbers and times, and the trials leave nothing.
func TestNumberStays(t *testing.T) {
	dir := testenv.Dir(t)
	h, err := tree.OpenAbs(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := numberStays(h); err != nil {
		t.Error(err)
	}
	if err := timeStays(h); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}
