//go:build linux

package nsrun

import (
	"errors"
	"syscall"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// otherEngine makes a new session with the next engine if the mounts of this one were refused, and reports whether it
// did. No code of the command has run.
func (x *Execution) otherEngine(err error) (bool, error) {
	r := x.runner
	if x.session == nil || x.resumed || x.landlock || r.config.Engine != 0 || !refusesMount(err) {
		return false, nil
	}
	last := x.session.Info().Engine
	if last == overlay.EngineCopy {
		return false, nil
	}
	if err := x.session.Remove(); err != nil {
		return false, err
	}
	x.session = nil
	for engine := last + 1; ; engine++ {
		err := x.prepare(engine)
		if err == nil {
			r.mu.Lock()
			r.engine = engine // sessions after this one need not try
			r.mu.Unlock()
			return true, nil
		}
		if engine == overlay.EngineCopy || !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) {
			return false, err
		}
	}
}

// withoutCaches leaves caches of a command without a session read-only, if no overlay can be mounted over them. It
// reports whether this was not known when the command was planned.
func (x *Execution) withoutCaches(err error) bool {
	if x.session != nil || x.plainCaches || !refusesMount(err) {
		return false
	}
	x.runner.plainCaches.Store(true)
	return true
}

// gone reports whether the host removed a file that a mount needs, such as a socket whose server ended: then the
// command has to be prepared again. It does so a limited number of times, in case that is not the reason.
func gone(err error, times *int) bool {
	e, ok := errors.AsType[*nsexec.Error](err)
	*times++
	return ok && e.Mount != 0 && errors.Is(e.Err, syscall.ENOENT) && *times <= 20
}

// renew prepares a session again whose tmpfs was attached in a sandbox that is gone: it cannot be attached again. No
// code of the command has run. So a new session is as good, unless this one has changes of other commands, which go to
// a new tmpfs.
func (x *Execution) renew() error {
	if x.session == nil || len(x.session.Layers()) == 0 {
		return nil
	}
	if x.resumed {
		if err := x.session.Collect(x.ctx); err != nil {
			return err
		}
		return x.session.ResumeContext(x.ctx, x.args)
	}
	err := x.session.Remove()
	x.session = nil
	return err
}

// missing are the features that the command had to do without, see Result.Missing.
func (x *Execution) missing() (list []features.Name) {
	if x.landlock {
		return x.withoutNamespaces()
	}
	if s := x.session; s != nil && !x.resumed && x.runner.config.Engine == 0 && s.Info().Engine != overlay.EngineOverlay {
		list = append(list, features.Overlay)
	}
	if x.session == nil && x.plainCaches {
		list = append(list, features.Overlay)
	}
	if sandbox.Of(x.cmd).HostProc {
		list = append(list, features.OwnProc)
	}
	if s := sandbox.Of(x.cmd).Supervisor; x.renames != nil && s != nil && s.Without {
		list = append(list, features.SeccompNotification)
	}
	if !features.Has(features.NewMountCalls) {
		list = append(list, features.NewMountCalls)
	}
	if n := x.net; n != nil {
		list = append(list, n.missing...)
		if n.mode == BrokerEnforcer && !features.Has(features.LandlockTCP) {
			list = append(list, features.LandlockTCP)
		}
	}
	return list
}

// refusesMount reports whether err says that the kernel refused one of a session's mounts.
func refusesMount(err error) bool {
	e := new(nsexec.Error)
	if !errors.As(err, &e) || e.Op != nsexec.StepOverlay && e.Op != nsexec.StepLayer {
		return false
	}
	for _, errno := range [...]syscall.Errno{syscall.EINVAL, syscall.EPERM, syscall.EACCES, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EREMOTE} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
