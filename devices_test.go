//go:build linux

package nsrun_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestDevices: commands use the devices that are named, with the rights that this user has, and see no others.
func TestDevices(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	var some string // that is no harmless one, and exists here
	for _, name := range []string{"/dev/loop-control", "/dev/fuse", "/dev/net/tun", "/dev/rtc0", "/dev/hwrng", "/dev/ptp0", "/dev/vsock"} {
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
		"/dev/mem": "memory or the log of this host", "/dev/pts/0": "not a character device", "/dev/shm": "not a character device", "/dev/nothing": "no such file",
		"/etc/passwd": "below /dev", "/dev/../etc/passwd": "below /dev", "dev/zero": "below /dev", "": "below /dev", "/dev/fd/0": "",
	} {
		_, err := runner(t, nsrun.Config{Project: p, Devices: []string{name}}).Run(t.Context(), nsrun.Request{Command: "true"})
		if err == nil || !strings.Contains(err.Error(), want) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
