//go:build linux

package homelayer

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// TestLongBook: of a book of more than 64 MiB, which a command with many files makes, nothing is cut off.
func TestLongBook(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := sys.FD(fd)
	defer dir.Close()
	names := []string{strings.Repeat("x", 64<<20), "last"}
	for range 2 {
		b, err := openBook(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		if names != nil {
			if err := b.write("run", "d/", names); err != nil {
				t.Fatal(err)
			}
		} else if got := b.of("d/last", ""); got != "run" {
			t.Errorf("the last record belongs to %q", got)
		}
		names = nil
	}
}
