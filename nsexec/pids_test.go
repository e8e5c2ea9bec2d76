//go:build linux

package nsexec_test

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestProcessIDs: the process ids of two sandboxes differ, and are no small numbers, as root and where the command has
// one id. The controls are sandboxes as bubblewrap makes them, and commands that have the host's process ids or are
// PID 1.
func TestProcessIDs(t *testing.T) {
	leaks(t)
	if err := unix.Access("/proc/sys/kernel/ns_last_pid", unix.W_OK); err != nil {
		testenv.Skip(t, "process-ids", "ns_last_pid: "+err.Error())
	}
	number := func(change func(c *nsexec.Cmd)) int {
		c := shell("echo $$")
		c.Mounts = base()
		change(c)
		n, err := strconv.Atoi(output(t, c))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	seen := make(map[int]bool)
	for range 3 { // of which two are equal once in 10,000 times, and all three once in 800 million
		n := number(func(*nsexec.Cmd) {})
		if n <= 300 {
			t.Errorf("the process id is %d", n)
		}
		seen[n] = true
	}
	if len(seen) == 1 {
		t.Errorf("the process id is always one of %v", seen)
	}
	if n := number(func(c *nsexec.Cmd) { c.Capabilities = nsexec.AllCapabilities() }); n <= 300 {
		t.Errorf("with all capabilities: %d", n)
	}
	if n := number(func(c *nsexec.Cmd) { sandbox.Of(c).Bubblewrap = true }); n > 9 {
		t.Errorf("with Bubblewrap: %d", n)
	}
	if n := number(func(c *nsexec.Cmd) { sandbox.Of(c).AsPID1 = true }); n != 1 {
		t.Errorf("as PID 1: %d", n)
	}
}
