//go:build linux

package nsrun

import (
	"context"
	"errors"
	"syscall"

	"github.com/nsrun/nsrun/internal/limiter"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// limits are those of a request, which can only be stricter than the Config's.
func (c *Config) limits(q *Request) limits.Limits { return c.Limits.all().Tighten(q.Limits.all()) }

// confine makes the command's limits apply from its start.
func (x *Execution) confine(cmd *nsexec.Cmd) error {
	l := x.runner.config.limits(&x.request)
	x.hold.End() // of an attempt before
	x.hold, x.meter = nil, nil
	if l == (limits.Limits{}) {
		return nil
	}
	hold, err := x.runner.limiter.Hold(l, cmd.Cgroup, x.written(&l), x.landlock)
	if err != nil {
		e := &LimitError{Err: err}
		if none, ok := errors.AsType[*limits.Error](err); ok {
			e.Name = string(none.Name)
		}
		return e
	}
	x.hold = hold
	if l.Output > 0 {
		x.meter = &meter{left: l.Output, over: func() { _ = cmd.Signal(syscall.SIGKILL) }}
	}
	if g := hold.Cgroup(); g != nil {
		cmd.Cgroup = g
	}
	if hold.Places() {
		sandbox.Of(cmd).Place = hold.Place
	}
	for _, r := range hold.Rlimits() {
		cmd.Rlimits = append(cmd.Rlimits, nsexec.Rlimit(r))
	}
	for _, h := range hold.Held() {
		if h.Less != "" {
			x.notices = append(x.notices, Notice{Kind: NoticeLimit, Text: h.LessText()})
		}
	}
	return nil
}

// confined starts the checks that are needed while the command runs.
func (x *Execution) confined() {
	if x.hold != nil {
		x.hold.Begin(x.cmd.Process.Pid, func() { _ = x.cmd.Signal(syscall.SIGKILL) })
	}
}

// settleLimits records what happened to the limits. No process of the command runs any more.
func (x *Execution) settleLimits() {
	res := &x.result
	for _, o := range x.hold.End() {
		l := Limit{string(o.Name), o.Value, string(o.By), o.Hit, o.Killed, o.Peak, o.Less}
		if o.Name == limits.FileSize && res.Signal == syscall.SIGXFSZ {
			l.Hit, l.Killed = true, true
		}
		if o.Name == limits.Output && x.meter != nil {
			l.Peak, l.Hit = x.meter.state()
			l.Killed = l.Hit
		}
		if l.Killed = l.Killed && (res.Signal != nil || res.ExitCode != 0); l.Hit && o.Name != limits.CPUs {
			res.note(NoticeLimit, l.String())
		} else if l.Killed && o.Lost != nil {
			res.note(NoticeLimit, o.LostText())
		}
		res.Limits = append(res.Limits, l)
	}
}

// written returns a reader of what is written to the session; nil: there is no session, or no such limit.
func (x *Execution) written(l *limits.Limits) limiter.Reader {
	s := x.session
	if s == nil || l.Disk == 0 && l.Inodes == 0 {
		return nil
	}
	var copies overlay.Written // what a copy begins with is not written by the command
	if s.Info().Engine == overlay.EngineCopy {
		copies, _ = s.Written(x.ctx)
	}
	home, other := x.homes[0].layer, x.homes[1].layer
	return func(ctx context.Context) (limiter.Reading, error) {
		w, err := s.Written(ctx)
		bytes, files := home.Wrote()
		otherBytes, otherFiles := other.Wrote()
		bytes, files = bytes+otherBytes, files+otherFiles
		return limiter.Reading{
			Bytes: max(0, w.Bytes-copies.Bytes) + bytes, Files: max(0, w.Files-copies.Files) + files, Partial: w.Partial,
			UsedBytes: w.UsedBytes, UsedFiles: w.UsedFiles,
		}, err
	}
}
