//go:build linux

package nsrun

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestNotTimedOut: a command that was not asked to end has not timed out, even if
// its time is up when all is said and done.
func TestNotTimedOut(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	x, err := NewRunner(Config{Timeout: time.Hour, NoPlayground: true}).Start(context.Background(), Request{Command: "true"})
	if err != nil {
		t.Fatal(err)
	}
	up, cancel := context.WithCancel(t.Context())
	cancel()
	x.ctx, x.parent = up, up
	if res, err := x.Wait(); err != nil || res.TimedOut {
		t.Errorf("%v, timed out: %v", err, res.TimedOut)
	}
	if err := x.cmd.Cancel(); !errors.Is(err, os.ErrProcessDone) || x.canceled.Load() {
		t.Errorf("canceled after its end: %v, %v", x.canceled.Load(), err)
	}
}

// TestLongTimeout: a limit beyond what the kernel's clock can count is not one that is reached at once.
func TestLongTimeout(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	r := NewRunner(Config{Timeout: 1<<63 - 1, NoPlayground: true})
	if res, err := r.Run(t.Context(), Request{Command: "exit 3"}); err != nil || res.TimedOut || res.ExitCode != 3 {
		t.Errorf("%v, timed out: %v, exit code %d", err, res.TimedOut, res.ExitCode)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
