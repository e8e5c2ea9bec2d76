//go:build linux

package sys

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestWalk: openat2(2) by openat(2) finds what openat2(2) finds, and no more.
func TestWalk(t *testing.T) {
	testenv.Leaks(t)
	const careful = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	testenv.Lookups(t, walked, 0, unix.RESOLVE_IN_ROOT, unix.RESOLVE_BENEATH, careful, careful|unix.RESOLVE_NO_XDEV, unix.RESOLVE_NO_SYMLINKS)
}

func TestWalkSwapped(t *testing.T) {
	testenv.Leaks(t)
	testenv.SwapLookups(t, walked)
}

func walked(dir int, name string, how unix.OpenHow) (int, error) {
	fd, err := open2(dir, name, how.Flags, how.Mode, how.Resolve)
	return int(fd), err
}

// TestRefused: if a system call is refused, the calls that replace it have the same result.
func TestRefused(t *testing.T) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "f", "g", "l => f")
	p := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{p("f"), p("l"), dir, "/dev/null", "/proc/self/fd"} {
		var with, without unix.Statx_t
		const mask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
		statxCall.state.Store(isThere)
		if err := Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, mask, &with); err != nil {
			t.Fatal(err)
		}
		refusing(t, &statxCall, func() {
			if err := statInstead(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, mask, &without); err != nil {
				t.Fatal(err)
			}
		})
		with.Mask, with.Attributes, with.Attributes_mask, with.Btime = without.Mask, 0, 0, without.Btime
		with.Atime = without.Atime
		known := unix.Statx_t{
			Mask: with.Mask, Blksize: with.Blksize, Nlink: with.Nlink, Uid: with.Uid, Gid: with.Gid, Mode: with.Mode, Ino: with.Ino, Size: with.Size,
			Blocks: with.Blocks, Atime: with.Atime, Ctime: with.Ctime, Mtime: with.Mtime, Rdev_major: with.Rdev_major, Rdev_minor: with.Rdev_minor,
			Dev_major: with.Dev_major, Dev_minor: with.Dev_minor, Mnt_id: with.Mnt_id,
		}
		if without != known || without.Mask&unix.STATX_MNT_ID == 0 {
			t.Errorf("%s: %+v\nwant %+v", name, without, known)
		}
	}
	refusing(t, &renameat2Call, func() {
		if err := renameInstead(unix.AT_FDCWD, p("f"), unix.AT_FDCWD, p("g"), unix.RENAME_NOREPLACE); err != unix.EINVAL {
			t.Errorf("a flag: %v", err)
		}
		if err := renameInstead(unix.AT_FDCWD, p("f"), unix.AT_FDCWD, p("g"), 0); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Lstat(p("f")); !os.IsNotExist(err) {
		t.Error(err)
	}
	// What a process may not do is no refused call.
	if openat2Call.refused(unix.EPERM) || openat2Call.refused(unix.EACCES) || statxCall.refused(unix.ENOSYS) {
		t.Error("a call that is there is refused")
	}
}

// refusing has a call count as refused.
func refusing(t *testing.T, c *tried, f func()) {
	t.Helper()
	before := c.state.Swap(isRefused)
	defer c.state.Store(before)
	f()
}
