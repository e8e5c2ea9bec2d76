//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// helpElevated starts a sandbox and prints what came of it.
func helpElevated([]string) int {
	c := nsexec.Command("true")
	c.Mounts = mounts.Plan{mounts.ROBind("/", "/")}
	err := c.Run()
	fmt.Print(err, errors.Is(err, secureexec.Err))
	nsexec.Shutdown()
	return 0
}

// TestElevatedProgram: an embedding program that is set-user-id gets no sandbox. The control is
// the same program without the bit.
func TestElevatedProgram(t *testing.T) {
	testenv.NeedRoot(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(testenv.Dir(t), "program")
	for _, mode := range []os.FileMode{0o755, 0o755 | os.ModeSetuid} {
		_ = os.Remove(file)
		if err := errors.Join(os.WriteFile(file, self, 0o755), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(file)
		c.Env = append(os.Environ(), helperVars("elevated")...)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.Output()
		want := "<nil> false"
		if mode&os.ModeSetuid != 0 {
			want = "start true: " + secureexec.Err.Error() + " true"
		}
		if err != nil || string(out) != want {
			t.Errorf("mode %v: %q, %v; want %q", mode, out, err, want)
		}
	}
}
