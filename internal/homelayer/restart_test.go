//go:build linux

package homelayer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestRestarted: the first user after a restart is told, once, if commands wrote to the layer shortly before it.
func TestRestarted(t *testing.T) {
	if sys.BootID() == "" {
		testenv.Skip(t, "boot", "the kernel has no boot id")
	}
	path := place(t)
	link := filepath.Join(path, bootName)
	use := func(want bool, files ...string) {
		t.Helper()
		l := take(t, path)
		if l.Restarted() != want {
			t.Errorf("restarted: %v", !want)
		}
		if boot, err := os.Readlink(link); err != nil || boot != sys.BootID() {
			t.Errorf("the link says %q, %v", boot, err)
		}
		fill(t, l.Upper(), files)
		release(t, l)
	}
	restart := func(make func() error) {
		t.Helper()
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if err := make(); err != nil {
			t.Fatal(err)
		}
	}
	before := func() error { return os.Symlink("00000000-0000-4000-8000-000000000000", link) }
	use(false)
	restart(before)
	use(false, "f: 1") // it was empty
	use(false)
	restart(before)
	use(true)
	use(false)
	restart(func() error { return os.WriteFile(link, nil, 0o600) })
	use(true)
	restart(func() error { return os.Mkdir(link, 0o700) })
	use(true)
	restart(func() error { return nil }) // a layer of an older version
	use(false)

	long := time.Now().Add(-1000 * 24 * time.Hour) // before this boot
	unused := func(state string) func() error {
		return func() error {
			lock := filepath.Join(path, lockName)
			return errors.Join(before(), os.WriteFile(lock, []byte(state), 0o600), os.Chtimes(lock, long, long))
		}
	}
	restart(unused("f"))
	use(false) // it was written long before
	restart(unused("b"))
	use(true) // the command did not end
}

// TestRestartedRuns: what a command left that did not have the layer alone counts, too.
func TestRestartedRuns(t *testing.T) {
	if sys.BootID() == "" {
		testenv.Skip(t, "boot", "the kernel has no boot id")
	}
	path := place(t)
	a := take(t, path)
	b := take(t, path)
	fill(t, b.Upper(), []string{"f: 1"})
	release(t, b)
	link := filepath.Join(path, bootName)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("00000000-0000-4000-8000-000000000000", link); err != nil {
		t.Fatal(err)
	}
	c := take(t, path)
	if !c.Restarted() {
		t.Error("it is not told")
	}
	release(t, c)
	release(t, a)
}
