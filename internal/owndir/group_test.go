//go:build linux

package owndir

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestOwnGroup: a directory below a set-group-id one has the caller's own group, and so has what is made in it, because
// no overlay can be mounted over directories of a group that a user namespace lacks. As a control, the group of a
// directory in which it may do something stays.
func TestOwnGroup(t *testing.T) {
	const other = 4321
	testenv.NeedRoot(t)
	testenv.Leaks(t)
	volume := filepath.Join(testenv.Dir(t), "volume")
	group := func(dir string) (gid uint32, mode uint32) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			t.Fatal(err)
		}
		return st.Gid, st.Mode & 0o7777
	}
	with := func(dir string, mode uint32) {
		t.Helper()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 0, other); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	open := func(dir string) {
		t.Helper()
		fd, _, err := Open(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		fd.Close()
	}
	with(volume, 0o2755)
	made, found, shared := filepath.Join(volume, "made"), filepath.Join(volume, "found"), filepath.Join(volume, "shared")
	with(found, 0o2700)
	with(shared, 0o2750)
	for _, dir := range []string{made, found, shared} {
		open(dir)
		if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	own := uint32(os.Getegid())
	for _, dir := range []string{made, found} {
		if gid, mode := group(dir); gid != own || mode != 0o700 {
			t.Errorf("%s: group %d, mode %o", dir, gid, mode)
		}
		if gid, _ := group(filepath.Join(dir, "below")); gid != own {
			t.Errorf("below %s: group %d", dir, gid)
		}
	}
	if gid, mode := group(shared); gid != other || mode != 0o2750 {
		t.Errorf("the control: group %d, mode %o", gid, mode)
	}
}
