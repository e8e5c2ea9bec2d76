//go:build linux

package features

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestNewMounts compares the answer with what calls that need no privilege say.
func TestNewMounts(t *testing.T) {
	testenv.Leaks(t)
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	if !NewMounts() {
		testenv.Skip(t, "newmounts", "open_tree says "+errorText(err))
	}
	if err != nil {
		t.Errorf("NewMounts is true, and open_tree says %v", err)
	}
	if err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}); err == unix.ENOSYS {
		t.Errorf("NewMounts is true, and mount_setattr says %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return "yes"
	}
	return err.Error()
}
