//go:build linux

package nsrun_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestDevices: commands use the devices that are named, with the rights that this user has, and see no others.
func TestDevices(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	var some string // that is no harmless one, and exists here
	for _, name := range []string{"/dev/fuse", "/dev/net/tun", "/dev/rtc0", "/dev/hwrng", "/dev/ptp0", "/dev/vsock"} {
		if fi, err := os.Lstat(name); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
			some = name
			break
		}
	}
	if some == "" {
		testenv.Skip(t, "some device", "this machine has only harmless devices")
	}
	outside, err := os.Stat(some)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(some)
	may := err == nil
	if may {
		_ = f.Close()
	}
	look := "ls -l " + some + " | cut -c1; : <" + some + " && echo opened"
	for name, c := range map[string]nsrun.Config{"default": {}, "strict": {Preset: nsrun.StrictPreset}} {
		c.Project, c.Devices = p, []string{some, some}
		want := "c\n"
		if may {
			want += "opened\n"
		}
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: look})
		if got := string(res.Stdout.Bytes()); err != nil || got != want {
			t.Errorf("%s: %q, want %q: %v, %s", name, got, want, err, res)
		}
		c.Devices = nil // the control
		res, err = runner(t, c).Run(t.Context(), nsrun.Request{Command: look})
		if err != nil || res.ExitCode == 0 {
			t.Errorf("%s: without Config.Devices: %v, %s", name, err, res)
		}
		if named := len(res.Refusals) == 1 && res.Refusals[0].Flag == "--device "+some; named != may || !may && len(res.Refusals) > 0 {
			t.Errorf("%s: %+v, and outside the device opens: %t", name, res.Refusals, may)
		}
	}
	// The mode and the owner of what is the host's are nobody's to change.
	r := runner(t, nsrun.Config{Project: p, Devices: []string{some}})
	sh(t, r, "chmod 777 "+some+"; rm -f "+some+"; touch -d @1 "+some+"; true")
	if now, err := os.Stat(some); err != nil || now.Mode() != outside.Mode() || !now.ModTime().Equal(outside.ModTime()) {
		t.Errorf("%s is changed: %v, %v", some, now.Mode(), err)
	}
	for name, want := range map[string]string{
		"/dev/mem": "memory or the log of this host", "/dev/pts/0": "a terminal of this host", "/dev/stdin": "symbolic link", "/dev/shm": "not a character device", "/dev/nothing": "no such file",
		"/etc/passwd": "below /dev", "/dev/../etc/passwd": "below /dev", "dev/zero": "below /dev", "": "below /dev", "/dev/fd/0": "symbolic link",
	} {
		_, err := runner(t, nsrun.Config{Project: p, Devices: []string{name}}).Run(t.Context(), nsrun.Request{Command: "true"})
		if err == nil || !strings.Contains(err.Error(), want) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// TestDeviceNodes: a node of a device that commands cannot have is refused under any name, and a device that they can
// have is shown under any name.
func TestDeviceNodes(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	dir, err := os.MkdirTemp("/dev/shm", "nsrun-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, c := range map[string]struct {
		mode         uint32
		major, minor uint32
		want         string
	}{
		"sg":       {unix.S_IFCHR, 21, 0, "disks of this host"},
		"mem":      {unix.S_IFCHR, 1, 1, "memory or the log of this host"},
		"port":     {unix.S_IFCHR, 1, 4, "memory or the log of this host"},
		"kmsg":     {unix.S_IFCHR, 1, 11, "memory or the log of this host"},
		"msr":      {unix.S_IFCHR, 202, 0, "memory or the log of this host"},
		"mapper":   {unix.S_IFCHR, 10, 236, "disks of this host"},
		"terminal": {unix.S_IFCHR, 4, 1, "a terminal of this host"},
		"nobody's": {unix.S_IFCHR, 511, 77, "does not say"},
		"disk":     {unix.S_IFBLK, 7, 0, "not a character device"},
		"zero":     {unix.S_IFCHR, 1, 5, ""},
	} {
		node := filepath.Join(dir, name)
		if err := unix.Mknod(node, c.mode|0o666, int(unix.Mkdev(c.major, c.minor))); err != nil {
			testenv.Skip(t, "mknod", err.Error())
		}
		if err := os.Link(node, node+".hard"); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{node, node + ".hard"} {
			res, err := runner(t, nsrun.Config{Project: p, Devices: []string{at}}).Run(t.Context(), nsrun.Request{Command: "test -c " + strings.ReplaceAll(at, "'", "\\'")})
			if c.want == "" && (err != nil || res.ExitCode != 0) || c.want != "" && (!errors.Is(err, nsrun.ErrDevice) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", at, err, c.want)
			}
		}
	}
	if err := os.Symlink("mem", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	_, err = runner(t, nsrun.Config{Project: p, Devices: []string{dir + "/link"}}).Run(t.Context(), nsrun.Request{Command: "true"})
	if !errors.Is(err, nsrun.ErrDevice) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link: %v", err)
	}
}
