//go:build linux

package nsexec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestGate: the command is executed once the gate has opened, not before. If the gate stays closed, nothing is
// executed.
func TestGate(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := testenv.Dir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	for _, reaper := range []bool{false, true} {
		for _, ready := range []bool{false, true} {
			cmd := func(gate func() error) *nsexec.Cmd {
				c := nsexec.Command("sh", "-c", ": >"+made+"; ls /proc/self/fd")
				c.Mounts = base(mounts.Bind(dir, dir))
				sandbox.Of(c).Reaper, sandbox.Of(c).AsPID1, sandbox.Of(c).Gate = reaper, !reaper, gate
				if ready {
					sandbox.Ready(c, nil)
				}
				return c
			}
			var early error
			out, err := cmd(func() error { _, early = os.Lstat(made); return nil }).Output()
			if err != nil || !errors.Is(early, os.ErrNotExist) {
				t.Errorf("reaper %t, ready %t: %v; when it was asked %s: %v", reaper, ready, err, made, early)
			}
			if string(out) != "0\n1\n2\n3\n" { // the last is ls's own
				t.Errorf("reaper %t, ready %t: the command has the descriptors %q", reaper, ready, out)
			}
			if err := os.Remove(made); err != nil {
				t.Error(err)
			}
			no := errors.New("no")
			if err := cmd(func() error { return no }).Run(); err != no {
				t.Errorf("reaper %t, ready %t: refused: %v", reaper, ready, err)
			}
			if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("reaper %t, ready %t: refused, and executed: %v", reaper, ready, err)
			}
		}
	}
	// The time is up while the gate is closed, and nobody waits for the answer.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	open := make(chan bool)
	c := nsexec.CommandContext(ctx, "sh", "-c", ": >"+made)
	c.Mounts, sandbox.Of(c).Gate = base(mounts.Bind(dir, dir)), func() error { <-open; return nil }
	if err := c.Run(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a closed gate: %v", err)
	}
	close(open)
	if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a closed gate: %v", err)
	}
	// So it is where the set-up has failed before, for which a busy machine needs longer.
	for after := 500 * time.Millisecond; ; after *= 4 {
		err, ends := closedGate(t, after, base(mounts.Bind(made, made)))
		if !ends {
			t.Error("Start waits for a gate although the context has ended")
		}
		if errors.Is(err, context.DeadlineExceeded) && after < time.Minute {
			continue
		}
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a closed gate, and a source that is missing: %v", err)
		}
		break
	}
	c = nsexec.Command("true")
	c.Mounts, sandbox.Of(c).Close, sandbox.Of(c).Gate = base(), []int{3}, func() error { return nil }
	if err := c.Run(); err != nil {
		t.Errorf("with a descriptor in Close: %v", err)
	}
	c = nsexec.Command("true")
	sandbox.Of(c).Bubblewrap, sandbox.Of(c).Gate = true, func() error { return nil }
	if err := c.Run(); err == nil {
		t.Error("Gate together with Bubblewrap is not an error")
	}
}

// closedGate runs a command whose gate stays closed, and whose context ends after some time. It returns the error, and
// whether Run returned without the gate's answer.
func closedGate(t *testing.T, after time.Duration, plan mounts.Plan) (err error, ends bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	later := make(chan bool)
	late := time.AfterFunc(testenv.Patience, func() { close(later) })
	c := nsexec.CommandContext(ctx, "true")
	c.Mounts, sandbox.Of(c).Gate = plan, func() error { <-later; return nil }
	err = c.Run()
	if ends = late.Stop(); ends {
		close(later)
	}
	return err, ends
}
