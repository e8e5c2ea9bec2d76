//go:build linux

package main

import (
	"context"
	"errors"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/overlay"
)

// setEngine is --engine.
func (o *runOptions) setEngine(name string) error {
	if o.engine.UnmarshalText([]byte(name)) != nil {
		return errors.New("only overlay, tmpfs and copy")
	}
	return nil
}

// collect stores what the command wrote, and finds the changes. Where storing fails they
// are still there until the program ends, and can be committed.
func (r *runner) collect() error {
	ctx, stop := console.Interruptible()
	defer stop()
	err := r.execution.Collect(ctx)
	r.changes = r.execution.Changes()
	if r.watched != nil {
		<-r.watched
	}
	res, _ := r.execution.Wait()
	r.tell(res)
	if why := r.execution.Unstored(); why != nil {
		console.Say("%s", why)
		if r.session.Info().Engine == overlay.EngineTmpfs {
			console.Say("the changes can be committed now, or are lost")
		}
	}
	return err
}

// preserve keeps what a later merge needs.
func (r *runner) preserve() error {
	if r.execution.Unstored() != nil {
		return errors.New("the changes could not be kept")
	}
	return r.session.Preserve(context.Background(), r.changes)
}
