//go:build linux

package main

import (
	"context"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay"
)

// A signal stops the copying of a project, and no later step.
func TestCopyingStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{o: &runOptions{quiet: true}, signals: make(chan os.Signal, 1)}
	progress, end := r.copying(cancel)
	progress(overlay.Progress{Done: 1})
	progress(overlay.Progress{Done: 1, Total: 1})
	r.signals <- unix.SIGINT
	end()
	if len(r.signals) != 1 || r.stopped != nil || ctx.Err() != nil {
		t.Errorf("after the copy, the signal was taken: %v, %v", r.stopped, ctx.Err())
	}
	progress(overlay.Progress{Done: 1}) // another copy
	<-ctx.Done()
	end()
	if r.stopped != unix.SIGINT {
		t.Errorf("stopped by %v", r.stopped)
	}
}
