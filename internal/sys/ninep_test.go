//go:build linux

package sys

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestIs9P: a 9p file system is known by its device, whatever statfs(2) says about the server's.
func TestIs9P(t *testing.T) {
	const list = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 22 0:27 / /run rw,nosuid shared:5 - tmpfs run rw,mode=755
41 22 0:33 / /home/me rw,relatime - 9p host rw,access=client,trans=virtio
42 22 0:34 / /srv/9p rw,relatime master:1 - btrfs /dev/vdb rw,subvol=/9p
43 22 0:35 / /srv/shared rw,relatime shared:7 master:1 - 9p host rw,trans=virtio
`
	for _, tt := range []struct {
		dev uint64
		is  bool
	}{
		{unix.Mkdev(0, 33), true},
		{unix.Mkdev(0, 35), true},
		{unix.Mkdev(0, 34), false},
		{unix.Mkdev(0, 27), false},
		{unix.Mkdev(0, 3), false},
		{unix.Mkdev(254, 0), false},
		{unix.Mkdev(254, 33), false},
	} {
		if is := is9P([]byte(list), tt.dev); is != tt.is {
			t.Errorf("%d:%d: %v", unix.Major(tt.dev), unix.Minor(tt.dev), is)
		}
	}
}

// TestOn9P: what is on no such file system is not taken for it, whichever way it was opened.
func TestOn9P(t *testing.T) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(list, []byte(" - 9p ")) {
		testenv.Skip(t, "without 9p", "this machine has 9p file systems")
	}
	for _, name := range []string{t.TempDir(), "/proc", "/dev"} {
		for _, how := range []int{unix.O_RDONLY, unix.O_PATH} {
			fd, err := unix.Open(name, how|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if On9P(FD(fd)) {
				t.Errorf("%s, %#x", name, how)
			}
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
	}
}
