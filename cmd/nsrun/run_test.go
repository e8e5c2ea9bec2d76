package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNotTimedOut: a command that was not asked to end has not timed out, even if
// its time is up when all is said and done.
func TestNotTimedOut(t *testing.T) {
	testenv.Leaks(t, reap)
	t.Chdir(testenv.Dir(t))
	r := &runner{o: &runOptions{direct: true, net: "none", timeout: time.Hour, command: []string{"true"}}}
	defer r.close()
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	up, cancel := context.WithCancel(t.Context())
	cancel()
	r.ctx = up
	if status := r.run(); status != 0 || r.timedOut {
		t.Errorf("status %d, timed out: %v", status, r.timedOut)
	}
	if err := r.cmd.Cancel(); !errors.Is(err, os.ErrProcessDone) || r.canceled.Load() {
		t.Errorf("canceled after its end: %v, %v", r.canceled.Load(), err)
	}
}
