//go:build linux

package nsexec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestReportsForgedEarly: root's command with CAP_SYS_PTRACE can write to the status pipe before PID 1 does. Whatever
// it writes, it runs once: a sandbox that had waited for it gets no successor. (Control: the command has reached the
// pipe.)
func TestReportsForgedEarly(t *testing.T) {
	testenv.NeedRoot(t) // whose command can look into PID 1
	testenv.Leaks(t, nsexec.Shutdown)
	nsexec.Shutdown() // the next launcher is on one processor
	onOneProcessor(t)
	dir := testenv.Dir(t)
	ran := filepath.Join(dir, "ran")
	reached := false
	for _, forged := range []string{
		`\005\000\000\000\020\000\000\000\000\000\000\000\000\000\000\000`, // a text, which PID 1's report is taken for
		`\002\000\000\000\000\000\000\000`,                                 // half a report
		`\002\000\000\000\000\000\000\200\026\000\000\000\000\000\000\000`, // the namespaces could not be made
	} {
		for range 30 {
			if err := os.WriteFile(ran, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c := shell("echo once >>" + ran + "; for n in 3 4 5 6 7 8 9; do printf '" + forged + "' >/proc/1/fd/$n && echo >" + ran + ".reached; done 2>/dev/null; exit 125")
			c.Share, c.Capabilities = nsexec.User, 1<<unix.CAP_SYS_PTRACE
			c.Mounts = base(mounts.Bind(dir, dir))
			_ = c.Run() // it may say anything about itself
			got, err := os.ReadFile(ran)
			if n := strings.Count(string(got), "once"); err != nil || n != 1 {
				t.Fatalf("%s: it ran %d times (%v)", forged, n, err)
			}
		}
		if _, err := os.Stat(ran + ".reached"); err == nil {
			reached = true
		}
	}
	if !reached {
		t.Error("the control: no command has reached PID 1's descriptors")
	}
}

// onOneProcessor keeps this process, and what it starts, on one processor until the test's end.
func onOneProcessor(t *testing.T) {
	t.Helper()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	set := func(cpus *unix.CPUSet) {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				_ = unix.SchedSetaffinity(tid, cpus) // it may have ended
			}
		}
	}
	set(&one)
	t.Cleanup(func() { set(&before) })
}
