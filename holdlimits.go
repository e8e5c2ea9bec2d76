//go:build linux

package nsrun

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
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
	if errors.Is(err, limiter.ErrClosed) {
		return ErrClosed // since the start began
	}
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
	if f := hold.Filter(); f != nil {
		cmd.Seccomp = append(slices.Clone(cmd.Seccomp), f)
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
func (x *Execution) settleLimits() { x.settleOutcomes(x.hold.End()) }

func (x *Execution) settleOutcomes(list []limits.Outcome) {
	res := &x.result
	for _, o := range list {
		if outgrown(&o) && res.Signal == nil {
			// Another process of the command was killed, and it ended before nsrun could kill it, too.
			x.outgrown, res.Signal, res.ExitCode = true, syscall.SIGKILL, 128+int(syscall.SIGKILL)
		}
		l := Limit{string(o.Name), o.Value, string(o.By), o.Hit, o.Killed, o.Peak, o.Less}
		if o.Name == limits.FileSize {
			l.Killed = res.Signal == syscall.SIGXFSZ
			l.Hit = l.Killed || res.ExitCode == 128+int(syscall.SIGXFSZ) // a shell says so of a process that it waited for
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

// outgrown reports whether the kernel killed a process for lack of memory in a cgroup of v1. There it kills one, and
// all others of the command have to end with it.
func outgrown(o *limits.Outcome) bool {
	return o.Name == limits.Memory && o.By == limits.ByV1 && o.Killed
}

// heardLimits marks the limits that a command which failed says it reached, where the kernel does not tell.
func (x *Execution) heardLimits() {
	if !x.result.Started || !x.failed() {
		return
	}
	for i := range x.result.Limits {
		l := &x.result.Limits[i]
		says := map[limits.Name]func(text []byte) bool{
			limits.FileSize: func(text []byte) bool { return containsAny(text, "file too large") },
			limits.PIDs:     x.saysNoProcess,
			limits.OpenFiles: func(text []byte) bool {
				return containsAny(text, "too many open files", "emfile")
			},
		}[limits.Name(l.Name)]
		if !l.Hit && l.By == string(limits.ByRlimit) && says != nil && slices.ContainsFunc(x.messageTexts(), says) {
			l.Hit = true
			x.result.note(NoticeLimit, l.String())
		}
	}
}

// saysNoProcess reports whether a message says that no process or thread could be made. Python does not say what
// failed.
func (x *Execution) saysNoProcess(text []byte) bool {
	forks := slices.ContainsFunc(x.args, func(arg string) bool { return strings.Contains(arg, "fork") })
	for line := range bytes.Lines(text) {
		again := containsAny(line, "resource temporarily unavailable", "eagain")
		if again && (containsAny(line, "fork", "thread", "clone", "spawn") || forks && containsAny(line, "blockingioerror")) ||
			containsAny(line, "cannot fork", "can't fork", "can't start new thread", "unable to create native thread", "failed to create new os thread") {
			return true
		}
	}
	return false
}

// written returns a reader of what is written to the session, the home layers and the playground; nil: there is no
// session, or no such limit.
func (x *Execution) written(l *limits.Limits) limiter.Reader {
	s := x.session
	if s == nil || l.Disk == 0 && l.Inodes == 0 {
		return nil
	}
	info := s.Info()
	var copies overlay.Written // what a copy begins with is not written by the command
	if info.Engine == overlay.EngineCopy {
		copies, _ = s.Written(x.ctx)
	}
	play := newPlayed(x.playground)
	return func(ctx context.Context) (limiter.Reading, error) {
		w, err := s.Written(ctx)
		r := limiter.Reading{
			Bytes: max(0, w.Bytes-copies.Bytes), Files: max(0, w.Files-copies.Files), Partial: w.Partial,
			UsedBytes: w.UsedBytes, UsedFiles: w.UsedFiles,
		}
		measured := make(map[uint64]bool) // file systems
		if info.Engine != overlay.EngineTmpfs {
			measured[deviceOf(info.Dir)] = true
		}
		for i := range x.homes {
			if layer := x.homes[i].layer; layer != nil {
				bytes, files, partial := layer.Wrote()
				r.Bytes, r.Files, r.Partial = r.Bytes+bytes, r.Files+files, r.Partial || partial
				addUsed(&r, layer.Upper(), measured)
			}
		}
		play.add(&r, measured)
		return r, err
	}
}

func deviceOf(path string) uint64 {
	var st unix.Stat_t
	_ = unix.Lstat(path, &st)
	return st.Dev
}

// addUsed adds what everybody uses on a file system, unless that was measured already.
func addUsed(r *limiter.Reading, path string, measured map[uint64]bool) {
	var st unix.Statfs_t
	if dev := deviceOf(path); !measured[dev] && unix.Statfs(path, &st) == nil {
		measured[dev] = true
		r.UsedBytes, r.UsedFiles = r.UsedBytes+int64(st.Blocks-st.Bfree)*st.Bsize, r.UsedFiles+int64(st.Files-st.Ffree)
	}
}

// played measures what a command writes to the playground, where others before it left files.
type played struct {
	dir          string // empty: there is no playground
	bytes, files int64  // what there is
	were, old    int64  // what there was
	partial      bool
	used         limiter.Reading // of the file system, when it was measured
}

func newPlayed(dir string) *played {
	p := &played{dir: dir}
	if dir != "" {
		addUsed(&p.used, dir, map[uint64]bool{})
		p.measure()
		p.were, p.old = p.bytes, p.files
	}
	return p
}

func (p *played) measure() {
	var err error
	p.bytes, p.files, err = host.Played(p.dir)
	p.partial = err != nil
}

// playedLess is how much the use of the file system changes at least before the playground, which may be large, is
// measured again.
const playedLess = 256 << 10

func (p *played) add(r *limiter.Reading, measured map[uint64]bool) {
	if p.dir == "" {
		return
	}
	var now limiter.Reading
	addUsed(&now, p.dir, map[uint64]bool{})
	if grown := now.UsedBytes - p.used.UsedBytes; now.UsedFiles != p.used.UsedFiles || grown <= -playedLess || grown >= playedLess {
		p.used = now
		p.measure()
	}
	r.Bytes, r.Files = r.Bytes+max(0, p.bytes-p.were), r.Files+max(0, p.files-p.old)
	r.Partial = r.Partial || p.partial
	addUsed(r, p.dir, measured)
}
