package main

import (
	"context"
	"errors"
	"syscall"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// setEngine is --engine.
func (o *runOptions) setEngine(name string) error {
	if o.engine.UnmarshalText([]byte(name)) != nil {
		return errors.New("only overlay, tmpfs and copy")
	}
	return nil
}

// otherEngine makes a new session with the next engine where the mounts of this one were
// refused, and reports whether it did. Nothing of the command was executed.
func (r *runner) otherEngine(err error) (bool, error) {
	if r.session == nil || r.resumed || r.o.engine != 0 || !refusesMount(err) {
		return false, nil
	}
	last := r.session.Info().Engine
	if last == overlay.EngineCopy {
		return false, nil
	}
	if r.cancel != nil {
		r.cancel()
	}
	if err := r.session.Remove(); err != nil {
		return false, err
	}
	r.session, r.cmd = nil, nil
	for r.engine = last + 1; ; r.engine++ {
		err := r.prepare()
		if err == nil || r.engine == overlay.EngineCopy || !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) {
			return err == nil, err
		}
	}
}

// refusesMount reports whether err says that the kernel refused one of a session's
// mounts.
func refusesMount(err error) bool {
	e := new(nsexec.Error)
	if !errors.As(err, &e) || e.Op != mounts.KindOverlay.String() && e.Op != mounts.KindLayer.String() {
		return false
	}
	for _, errno := range [...]syscall.Errno{syscall.EINVAL, syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EREMOTE} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// collect stores what the command wrote. Where that fails it is still there until the
// program ends, and can be committed.
func (r *runner) collect() {
	ctx, stop := interruptible()
	defer stop()
	if err := r.session.Collect(ctx); err != nil {
		r.unstored = err
		say("%s", err)
		if r.session.Info().Engine == overlay.EngineTmpfs {
			say("the changes can be committed now, or are lost")
		}
	}
}

// preserve keeps what a later merge needs.
func (r *runner) preserve() error {
	if r.unstored != nil {
		return errors.New("the changes could not be kept")
	}
	return r.session.Preserve(context.Background(), r.changes)
}
