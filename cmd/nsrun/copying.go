//go:build linux

package main

import (
	"context"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
)

// copying returns a function to be called as the copy of the project proceeds, which can take long. It shows how far
// that is, and a signal calls cancel: there is no command yet that could get the signal. The second function is to be
// called when the command was started, or was not.
func (r *runner) copying(cancel context.CancelFunc) (progress func(overlay.Progress), end func()) {
	bar := console.NewBar("copying the project", r.o.quiet)
	show := bar.Progress()
	var stop func() // nil: nothing is copied now
	end = func() {
		if stop != nil {
			stop()
			stop = nil
			bar.End()
		}
	}
	return func(p overlay.Progress) {
		if p.Total > 0 {
			end()
			return
		}
		if stop == nil {
			stop = r.stopBySignal(cancel)
		}
		if show != nil {
			show(p)
		}
	}, end
}

// stopBySignal calls cancel at the next signal, which it notes in r.stopped, until the returned function is called.
func (r *runner) stopBySignal(cancel func()) (end func()) {
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case r.stopped = <-r.signals:
			cancel()
		case <-enough:
		}
	}()
	return func() {
		close(enough)
		<-ended
	}
}
