//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// Wait waits until the command has ended, and then does with its changes what After says. When it returns, no process
// of the command runs any more, not even in the background. Its errors are those of Run. Calling Wait again returns the
// same values.
func (x *Execution) Wait() (Result, error) {
	x.waiting.Lock()
	defer x.waiting.Unlock()
	if x.waited {
		return x.result, x.result.Err
	}
	x.waited = true
	returned := false
	defer x.abandon(&returned)
	res, err := x.conclude()
	returned = true
	return res, err
}

// conclude waits for the command, does with its changes what After says, and releases everything.
func (x *Execution) conclude() (Result, error) {
	err := x.wait()
	x.closeStdin()
	x.watch.finish(x.parent, x.grace())
	res := &x.result
	res.Started, res.Duration = true, time.Since(x.began)
	if x.bare == nil {
		res.Missing = x.missing()
		if res.Backend = NativeBackend; x.landlock {
			res.Backend = LandlockBackend
		}
	}
	if x.stdout != nil {
		res.Stdout = x.stdout.output()
	}
	if x.stderr != nil {
		res.Stderr = x.stderr.output()
	}
	if ps := x.processState(); ps != nil {
		res.ExitCode = ps.ExitCode()
		if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			res.Signal, res.ExitCode = ws.Signal(), 128+int(ws.Signal())
		}
	}
	x.endRenames()   // before anybody looks at the changes
	x.settleLimits() // before their cgroup is removed with the network
	x.settleNetwork()
	if unread := x.unread.Load(); unread != nil {
		res.note(NoticeInput, "the end of standard input is missing: "+escape.Printable((*unread).Error()))
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		res.note(NoticeOutput, "the end of the output may be missing: it was not read in time")
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	// Start kills a command that has just begun, and does not ask it first.
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

// errPanicked is what an Execution ends with if a function of the caller's did not return.
var errPanicked = errors.New("an Approver, a Recorder or another function of this program panicked")

// abandon ends an Execution if a function of the caller's, such as a Recorder, panics or ends the goroutine: otherwise
// the Runner's session would stay in use for ever, where somebody recovers.
func (x *Execution) abandon(returned *bool) {
	if *returned {
		return
	}
	x.waited = true
	x.watch.end()
	_, _ = x.end(errPanicked)
}

// end releases everything.
func (x *Execution) end(err error) (Result, error) {
	if x.cancel != nil {
		x.cancel()
	}
	res, r := &x.result, x.runner
	x.sockets.end()
	x.hold.End()
	x.releaseHomes()
	x.work.Close()
	x.endApart()
	x.settleNetwork()
	x.endOwnIDs()
	x.endRenames()
	x.endMessages()
	x.endObserved()
	kept := false
	if s := x.session; s != nil && !x.gone {
		after := r.config.after()
		switch {
		case after == Hold && res.Started: // the caller's now
		case !res.Started && !x.resumed && after != Discard && x.wrote(err):
			res.Engine, res.Session, res.State = s.Info().Engine, s.ID(), overlay.Kept
			res.note(NoticeKept, "the command was given up just after it began: its changes are kept in session "+s.ID())
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
			if derr := x.release(); derr != nil {
				err = cmp.Or(err, derr)
			}
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
		clear := x.session.ClearScratch
		if !res.Started {
			clear = x.session.DropScratch // what was mounted may be in use still
		}
		go func() {
			_ = clear() // else Resume does it
			<-r.turn
		}()
	case x.turn:
		<-r.turn
	}
	res.Err, res.timeout = err, x.timeout
	x.tellRefusals(err)
	res.Notices = append(x.notices, res.Notices...)
	if _, res.Denied = errors.AsType[*DeniedError](err); res.Denied {
		x.note(NoticeRecord, r.record(context.WithoutCancel(x.parent), x))
	}
	return *res, err
}

// release makes a session that the command was to continue ready for the next one, if it was not executed. A tmpfs that
// was attached in its sandbox cannot be attached again: what is in it is stored.
func (x *Execution) release() error {
	if x.result.Started || x.cmd == nil {
		return nil
	}
	x.session.MountedUntil(sandbox.Of(x.cmd).Unmounted)
	if len(x.session.Layers()) == 0 {
		return nil
	}
	return x.session.Collect(context.WithoutCancel(x.parent))
}

// wrote reports whether a command that is not known to have started has changed something: one that was cancelled or
// killed during its start may have begun already.
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

// commit commits the session. ctx does not end with the caller's, so that a commit that has begun ends. But another
// commit to the project, for which this one waits, may not end: somebody can have stopped it.
func (x *Execution) commit(ctx context.Context, o overlay.CommitOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := func() bool { return true }
	defer func() { stop() }()
	o.Waiting = func(overlay.Holder) { stop = context.AfterFunc(x.parent, cancel) }
	o.Wait = x.timeout
	return x.session.CommitWith(ctx, o)
}

// settle finds the changes, and does with them what After says. If the caller cancelled the command, nothing is
// committed.
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
		if err := x.commit(ctx, overlay.CommitOptions{}); err != nil {
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
		if err == nil || overlay.Done(err) {
			x.note(NoticeRecord, r.discarded(ctx, s.ID()))
		}
		return err
	case after == Commit && !gaveUp:
		err := x.commit(ctx, overlay.CommitOptions{
			AllowExec: r.config.AllowExec, AllowSpecial: r.config.AllowSpecial, HoldSpecial: true,
		})
		res.Held = s.Held()
		if _, nothing := errors.AsType[*overlay.HeldError](err); nothing {
			return x.preserve(ctx)
		}
		if err != nil {
			res.Held = nil // it is kept with all the others
			if overlay.Done(err) {
				res.State = overlay.Committed
				x.note(NoticeRecord, r.committed(ctx, s))
			}
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
	x.services.close()
	x.result.Services = x.services.uses
	x.net.close()
	x.noteTurnedAway()
	x.result.Network = Network{Mode: "none"}
	if x.net != nil || x.request.Network || x.bare != nil || x.failed() {
		x.result.Network = x.Network()
	}
}

// failed reports whether the command was executed and failed.
func (x *Execution) failed() bool {
	ps := x.processState()
	return x.outgrown || ps != nil && !ps.Success()
}

// wait waits for the end of the command. It may be called from several goroutines.
func (x *Execution) wait() error {
	x.ending.Do(func() {
		if x.bare != nil {
			x.ended = x.bare.wait()
			return
		}
		x.ended = x.cmd.Wait()
		x.unmounted = sandbox.Of(x.cmd).Unmounted
		if x.session != nil {
			x.session.MountedUntil(x.unmounted)
		}
	})
	return x.ended
}

// processState is the command's. Nil: it was not executed, or has not ended.
func (x *Execution) processState() *os.ProcessState {
	switch {
	case x.bare != nil:
		return x.bare.ProcessState
	case x.cmd != nil:
		return x.cmd.ProcessState
	}
	return nil
}

func (x *Execution) retire() error {
	err := x.runner.clearings.retire(x.session)
	if err == nil {
		x.gone = true
		x.result.Session, x.result.State = "", overlay.Discarded
	}
	return err
}

// Collect stores what the command wrote, if the engine needs that, finds the changes, and tells the Recorder about the
// command, but not what happens to the changes. If it cannot list some of the changes, it returns an error, and
// x.Changes has the others. Call it with Hold, after Wait; with other values of After, Wait does it.
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
	var unlisted error // the first is enough
	for c, err := range x.session.Changes() {
		if err == nil {
			x.result.Changes = append(x.result.Changes, c)
		} else if unlisted == nil {
			unlisted = err
		}
	}
	if x.runner.config.after() == Discard {
		x.note(NoticeOther, unlisted) // what is thrown away need not be listed
		unlisted = nil
	}
	if unlisted != nil {
		return unlisted
	}
	return x.runner.record(ctx, x)
}

// preserve keeps what a later merge needs.
func (x *Execution) preserve(ctx context.Context) error {
	return x.session.Preserve(ctx, x.result.Changes)
}

// record tells the Recorder of a command that has ended.
func (r *Runner) record(ctx context.Context, x *Execution) error {
	if r.config.Recorder == nil {
		return nil
	}
	x.result.began = x.began
	return r.config.Recorder.Record(ctx, Record{&r.config, &x.request, x.args, x.dir, &x.result, x.session})
}
