//go:build linux

package sys

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestMkdir: the owner can use a directory whatever the umask is, and others get no more than that allows. The control is
// mkdirat(2).
func TestMkdir(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	for _, test := range []struct {
		umask      int
		plain, own os.FileMode
	}{{0, 0o755, 0o755}, {0o077, 0o700, 0o700}, {0o177, 0o600, 0o700}, {0o777, 0, 0o700}, {0o320, 0o455, 0o755}} {
		for name, make := range map[string]func(int, string, uint32) error{"plain": unix.Mkdirat, "own": Mkdir} {
			want := map[string]os.FileMode{"plain": test.plain, "own": test.own}[name]
			old := unix.Umask(test.umask)
			err := make(at, name, 0o755)
			unix.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			if fi, err := os.Stat(dir + "/" + name); err != nil || fi.Mode().Perm() != want {
				t.Errorf("umask %#o, %s: %v, %v; want %v", test.umask, name, fi.Mode(), err, want)
			}
			if err := os.Remove(dir + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Mkdir(at, ".", 0o700); err != unix.EEXIST {
		t.Error(err)
	}
}
