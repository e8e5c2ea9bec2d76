//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// Execution is a command that was started by Runner.Start. Wait must be called.
type Execution struct {
	runner  *Runner
	request Request
	args    []string
	began   time.Time
	parent  context.Context // the caller's
	ctx     context.Context // with the command's time
	cancel  context.CancelFunc
	timeout time.Duration

	session *overlay.Session // nil: there is no overlay
	resumed bool             // the session was there before
	turn    bool             // it is this command's turn to use the Runner's session
	dir     string
	cmd     *nsexec.Cmd
	notices []Notice
	direct  []string // folders that are written to directly

	sockets socketSearch
	explain bool // nothing is made

	later          host.Later
	live           *host.Live // for RunsLater; nil: nobody has asked
	watch          watch
	stdout, stderr *capture // nil: passed through, or merged
	stdin          [2]*os.File

	net *network // nil: none, or the host's

	canceled atomic.Bool // the command was asked to end, because its time was up
	unstored error       // why the changes are in memory only; nil: they are not
	settled  bool        // what it had of the network is in the result
	waited   bool
	gone     bool // the session is no more
	result   Result
}

func (x *Execution) closeStdin() {
	for _, f := range x.stdin {
		if f != nil {
			_ = f.Close()
		}
	}
	x.stdin = [2]*os.File{}
}

// Signal sends a signal to the command. SIGSTOP stops everything in the sandbox, and
// SIGCONT continues it.
func (x *Execution) Signal(s os.Signal) error { return x.cmd.Signal(s) }

// Session is the session that the command writes to: with Hold the caller's, to be closed
// by it; else it must not be closed. Nil: there is no overlay.
func (x *Execution) Session() *overlay.Session { return x.session }

// Place is a directory in which what the command writes appears while it runs.
type Place struct {
	Dir     string // where it appears
	Project string // the folder that it is about
}

// Places are the directories to be watched: of folders with an overlay what was written,
// of others themselves. With other engines than overlay.EngineOverlay nothing appears
// before the command has ended, or (overlay.EngineCopy) all of the project is there.
func (x *Execution) Places() (list []Place) {
	if x.session != nil {
		for _, r := range x.session.Roots() {
			list = append(list, Place{r.Upper, r.Path})
		}
	}
	for _, dir := range x.direct {
		list = append(list, Place{dir, dir})
	}
	return list
}

// Notices say what is not as it usually is, and is no error.
func (x *Execution) Notices() []Notice { return x.notices }

// public is an error of the rooms below as embedders know it.
func (x *Execution) public(err error) error {
	return public(err, x.runner.config.Rules, x.request.Paths)
}

// Network is what the command had of the network so far; Refused is counted as if it had failed.
func (x *Execution) Network() Network {
	switch {
	case x.net != nil:
		return x.net.result()
	case x.request.Network:
		return Network{Mode: "host"}
	}
	return Network{Mode: "none", Refused: refused(sandbox.Of(x.cmd).Unsent())}
}

// Wait waits for the command's end, and does with its changes what After says. When it
// returns nothing of the command runs any more, background processes included. The error
// is that of Run; calling Wait again returns the same.
func (x *Execution) Wait() (Result, error) {
	if x.waited {
		return x.result, x.result.Err
	}
	x.waited = true
	err := x.cmd.Wait()
	x.closeStdin()
	x.watch.finish()
	x.settleNetwork()
	res := &x.result
	res.Started, res.Duration = true, time.Since(x.began)
	res.Missing = x.missing()
	if x.stdout != nil {
		res.Stdout = x.stdout.output()
	}
	if x.stderr != nil {
		res.Stderr = x.stderr.output()
	}
	if ps := x.cmd.ProcessState; ps != nil {
		res.ExitCode = ps.ExitCode()
		if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			res.Signal, res.ExitCode = ws.Signal(), 128+int(ws.Signal())
		}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		res.note(NoticeOutput, "the end of the output may be missing: it was not taken in time")
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	// Start kills a command that has just begun, and does not ask first.
	if x.canceled.Load() || sandbox.Of(x.cmd).TimedOut || res.Signal == syscall.SIGKILL && x.ctx.Err() != nil {
		if err = x.parent.Err(); err == nil {
			res.TimedOut = true
		}
	}
	if serr := x.settle(err != nil); err == nil {
		err = serr
	}
	return x.end(err)
}

// end gives everything back.
func (x *Execution) end(err error) (Result, error) {
	if x.cancel != nil {
		x.cancel()
	}
	res, r := &x.result, x.runner
	x.settleNetwork()
	kept := false
	if s := x.session; s != nil && !x.gone {
		after := r.config.after()
		switch {
		case after == Hold && res.Started: // the caller's now
		case !res.Started && !x.resumed && after != Discard && x.wrote(err):
			res.Engine, res.Session, res.State = s.Info().Engine, s.ID(), overlay.Kept
			res.note(NoticeKept, "the command was given up when it had just begun: what it wrote is kept in session "+s.ID())
			if derr := s.DropScratch(); derr != nil {
				err = cmp.Or(err, derr)
			}
			_ = s.Close()
		case !res.Started && !x.resumed:
			if rerr := s.Remove(); rerr != nil && !errors.Is(rerr, os.ErrClosed) {
				err = cmp.Or(err, rerr)
			}
			_ = s.Close()
		default:
			if kept = after == Keep && r.keep(s); kept {
				break
			}
			if derr := s.DropScratch(); derr != nil && !errors.Is(derr, os.ErrClosed) {
				err = cmp.Or(err, derr)
			}
			_ = s.Close()
		}
	}
	if r.config.after() != Hold || x.session == nil || !res.Started {
		x.watch.tell()
	}
	switch {
	case kept: // only the next command has to wait for that
		go func() {
			_ = x.session.ClearScratch() // else Resume does it
			<-r.turn
		}()
	case x.turn:
		<-r.turn
	}
	res.Err, res.timeout = err, x.timeout
	res.Notices = append(x.notices, res.Notices...)
	if _, res.Denied = errors.AsType[*DeniedError](err); res.Denied {
		x.note(NoticeRecord, r.record(context.WithoutCancel(x.parent), x))
	}
	return *res, err
}

// wrote reports whether a command that is not known to have been started has changed
// something: one that is given up, or killed, while it is started may have begun already.
func (x *Execution) wrote(err error) bool {
	_, killed := errors.AsType[*nsexec.KilledError](err)
	if x.cmd == nil || x.ctx.Err() == nil && !killed {
		return false
	}
	if err := x.session.Collect(context.WithoutCancel(x.parent)); err != nil {
		return true // what cannot be looked at is not thrown away
	}
	for range x.session.Changes() {
		return true
	}
	return false
}

// settle finds out what changed, and does with it what After says. After a command that
// the caller gave up nothing is committed.
func (x *Execution) settle(gaveUp bool) error {
	s, res, r := x.session, &x.result, x.runner
	ctx := context.WithoutCancel(x.parent)
	if notice := x.later.Notice(); notice != "" {
		res.note(NoticeRunsLater, notice)
	}
	if s == nil {
		return r.record(ctx, x)
	}
	res.Engine, res.Session, res.State = s.Info().Engine, s.ID(), overlay.Kept
	after := r.config.after()
	if after == Hold {
		return nil
	}
	if err := x.Collect(ctx); err != nil {
		if x.unstored == nil {
			_ = x.preserve(ctx)
		}
		return err
	}
	switch {
	case len(res.Changes) == 0 && after == Commit && !gaveUp && s.Retimed() > 0: // as make's stamps
		if err := s.CommitWith(ctx, overlay.CommitOptions{}); err != nil {
			return err
		}
		res.State = overlay.Committed
		r.tidy()
		return nil
	case len(res.Changes) == 0 && !x.resumed && after != Keep:
		return x.retire()
	case len(res.Changes) == 0:
		return nil
	case after == Discard:
		err := x.retire()
		x.note(NoticeRecord, r.discarded(ctx, s.ID()))
		return err
	case after == Commit && !gaveUp:
		err := s.CommitWith(ctx, overlay.CommitOptions{
			AllowExec: r.config.AllowExec, AllowSpecial: r.config.AllowSpecial, HoldSpecial: true,
		})
		res.Held = s.Held()
		if _, nothing := errors.AsType[*overlay.HeldError](err); nothing {
			return x.preserve(ctx)
		}
		if err != nil {
			res.Held = nil // it is kept with all the others
			if _, applied := errors.AsType[*overlay.CommitError](err); !applied {
				_ = x.preserve(ctx)
			}
			return err
		}
		if res.Held != nil {
			x.note(NoticeMerge, s.Preserve(ctx, res.Held))
		}
		res.State = overlay.Committed
		x.note(NoticeRecord, r.committed(ctx, s))
		r.tidy()
		return nil
	}
	return x.preserve(ctx)
}

// settleNetwork ends the network, if that was not done before.
func (x *Execution) settleNetwork() {
	if x.settled {
		return
	}
	x.settled = true
	x.net.close()
	x.result.Network = Network{Mode: "none"}
	if x.net != nil || x.request.Network || x.failed() {
		x.result.Network = x.Network()
	}
}

// failed reports whether the command was executed, and did not succeed.
func (x *Execution) failed() bool {
	return x.cmd != nil && x.cmd.ProcessState != nil && !x.cmd.ProcessState.Success()
}

// retire discards the session.
func (x *Execution) retire() error {
	err := x.runner.clearings.retire(x.session)
	if err == nil {
		x.gone = true
		x.result.Session, x.result.State = "", overlay.Discarded
	}
	return err
}

// Collect stores what the command wrote, where the engine makes that necessary, finds the
// changes, and tells the Recorder, but not of what is done with them then. It is for Hold, after Wait; with others Wait does it.
func (x *Execution) Collect(ctx context.Context) error {
	defer x.watch.tell()
	if x.session == nil {
		return nil
	}
	if err := x.session.Collect(ctx); err != nil {
		x.unstored = err
		if x.runner.config.after() != Hold {
			return err
		}
	}
	x.result.Changes = nil
	for c, err := range x.session.Changes() {
		if err != nil {
			return err
		}
		x.result.Changes = append(x.result.Changes, c)
	}
	return x.runner.record(ctx, x)
}

// Changes are what Collect found.
func (x *Execution) Changes() []overlay.Change { return slices.Clip(x.result.Changes) }

// Unstored says why what the command wrote is in memory only. Nil: it is not.
func (x *Execution) Unstored() error { return x.unstored }

// preserve keeps what a later merge needs.
func (x *Execution) preserve(ctx context.Context) error {
	return x.session.Preserve(ctx, x.result.Changes)
}

// note adds to the Notices what failed, and stops nothing. Nil: nothing did.
func (x *Execution) note(kind NoticeKind, err error) {
	if err != nil {
		x.result.note(kind, err.Error())
	}
}

// record tells the Recorder of a command that has ended.
func (r *Runner) record(ctx context.Context, x *Execution) error {
	if r.config.Recorder == nil {
		return nil
	}
	x.result.began = x.began
	return r.config.Recorder.Record(ctx, Record{&r.config, &x.request, x.args, x.dir, &x.result, x.session})
}

// committed tells it of a commit.
func (r *Runner) committed(ctx context.Context, s *overlay.Session) error {
	if r.config.Recorder == nil {
		return nil
	}
	return r.config.Recorder.Committed(ctx, s)
}

// discarded tells it of a session that is no more.
func (r *Runner) discarded(ctx context.Context, id string) error {
	if r.config.Recorder == nil {
		return nil
	}
	return r.config.Recorder.Discarded(ctx, id)
}

// SignalName is the name of the signal that ended the command, "SIGKILL"; empty: none.
func (r Result) SignalName() string {
	if s, ok := r.Signal.(syscall.Signal); ok {
		return unix.SignalName(s)
	}
	return ""
}
