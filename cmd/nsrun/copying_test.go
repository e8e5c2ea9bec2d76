//go:build linux

package main

import (
	"context"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay"
)

// A signal stops the copying of a project at once. Later the command gets it, if that begins soon.
func TestCopyingStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{o: &runOptions{quiet: true}, signals: make(chan os.Signal, 1)}
	progress, end := r.copying()
	early := r.guardStart(cancel)
	progress(overlay.Progress{Done: 1})
	progress(overlay.Progress{Done: 1, Total: 1})
	r.signals <- unix.SIGINT
	if got := early(); len(got)+len(r.signals) != 1 || r.stopped != nil || ctx.Err() != nil {
		t.Errorf("after the copy: %v and %d signals, stopped by %v, %v", got, len(r.signals), r.stopped, ctx.Err())
	}
	r.signals = make(chan os.Signal, 1)
	early = r.guardStart(cancel)
	progress(overlay.Progress{Done: 1}) // another copy
	r.signals <- unix.SIGINT
	<-ctx.Done()
	early()
	end()
	if r.stopped != unix.SIGINT {
		t.Errorf("stopped by %v", r.stopped)
	}
}
