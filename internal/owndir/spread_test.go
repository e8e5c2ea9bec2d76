//go:build linux

package owndir

import (
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSpread: what Open makes on an ext4 without a journal has its directories in different parts of the disk, see
// chattr(1), T. With a journal it has not, and neither has what was there.
func TestSpread(t *testing.T) {
	testenv.NeedRoot(t) // who mounts
	const topDir = 0x00020000
	dir := t.TempDir()
	for _, c := range []struct {
		name, options string
		want          bool
	}{
		{"plain", "^has_journal", true},
		{"journal", "has_journal", false},
	} {
		at := filepath.Join(dir, c.name)
		mkfs := exec.Command("sh", "-euc", `truncate -s 16M "$0.img"; mkdir "$0"
			PATH=$PATH:/sbin:/usr/sbin; mkfs.ext4 -q -O "$1" "$0.img"; mount -o loop "$0.img" "$0"; mkdir -m 700 "$0/old"`, at, c.options)
		if out, err := mkfs.CombinedOutput(); err != nil {
			testenv.Skip(t, "ext4", string(out))
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		for _, name := range []string{"new", "old", "way/new"} {
			fd, _, err := Open(filepath.Join(at, name), true)
			if err != nil {
				t.Fatal(err)
			}
			flags, err := unix.IoctlGetInt(int(fd), unix.FS_IOC_GETFLAGS)
			fd.Close()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := flags&topDir != 0, c.want && name != "old"; got != want {
				t.Errorf("%s, %s: spread %v, want %v", c.name, name, got, want)
			}
		}
	}
}
