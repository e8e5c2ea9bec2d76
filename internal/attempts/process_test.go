//go:build linux

package attempts

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLongCommandLine: a process's command line is not read as a whole: it may be as long as its address space.
func TestLongCommandLine(t *testing.T) {
	const size = 100 << 10
	cmd := exec.Command("sleep", "1000")
	cmd.Args[0] = strings.Repeat("x", size)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	testenv.Eventually(t, "the program", func() bool { return strings.HasPrefix(programOf(cmd.Process.Pid), "sleep") })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	name := programOf(cmd.Process.Pid)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; len(name) > 2*mostCommandLine || took > size {
		t.Errorf("a name of %d bytes, for which %d bytes were allocated", len(name), took)
	}
}
