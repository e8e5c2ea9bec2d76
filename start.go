//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// Run runs a command and waits for it.
//
// The error is nil if the command ended, by itself or because it timed out, and its changes were kept, committed or
// discarded; its exit status is in the Result. Otherwise the error is a *DirError, *DeniedError, *RuleError,
// *MountError or *Error for mistakes in Config and Request; an *nsexec.Error, *overlay.Error or *overlay.ConflictError
// from the packages below; or the context's error. Result.Err is the same error, so Result.String is what a model
// should read in any case. Hold is an error, because nobody would have the session: use Start.
//
// Run returns when ctx ends, but not while this program looks at a file on a file system that does not answer: Linux
// has no such calls with a time limit.
func (r *Runner) Run(ctx context.Context, q Request) (Result, error) {
	if r.config.after() == Hold {
		err := &Error{Op: "run", Err: errors.New("Hold requires Start: Run would lose the session")}
		return Result{Err: err}, err
	}
	x, err := r.Start(ctx, q)
	if err != nil {
		return x.result, err
	}
	if r.config.Watch {
		return x.runWatched()
	}
	return x.Wait()
}

// Start starts a command. It returns a nil error only after the command was executed; q can then be changed, and used
// again. If it returns an error, only Wait may be called on the Execution; it returns a Result with the same error.
func (r *Runner) Start(ctx context.Context, q Request) (*Execution, error) {
	x := &Execution{runner: r, request: q.copied(), parent: ctx, began: time.Now()}
	returned := false
	defer x.abandon(&returned)
	err := r.begin(x)
	returned = true
	if err == nil {
		return x, nil
	}
	x.waited = true
	_, err = x.end(x.public(err))
	why := r.unavailable(err)
	if why == "" {
		return x, err
	}
	q = x.request // what was asked for is approved
	x = &Execution{runner: r, request: q, args: x.args, parent: ctx, began: time.Now()}
	if err = x.startUnsandboxed(why); err != nil {
		x.waited = true
		_, err = x.end(x.public(err))
	}
	return x, err
}

func (r *Runner) begin(x *Execution) (err error) {
	r.init()
	if secureexec.On() {
		return &Error{Op: "run", Err: secureexec.Err}
	}
	if err := r.config.check(); err != nil {
		return err
	}
	if x.args, err = x.request.args(); err != nil {
		return err
	}
	if err := x.parent.Err(); err != nil {
		return err
	}
	if x.request.Paths, err = r.config.realRules(x.request.Paths); err != nil {
		return err
	}
	if r.isClosed() {
		return ErrClosed // nobody is asked in vain
	}
	if err := r.approve(x.parent, &x.request); err != nil {
		return err
	}
	if r.config.Sandbox == SandboxDisabled {
		x.began = time.Now()
		return x.startUnsandboxed(disabledReason)
	}
	if r.config.after() == Keep && r.config.layered() {
		select {
		case r.turn <- struct{}{}:
			x.turn = true
		case <-x.parent.Done():
			return x.parent.Err()
		}
	}
	x.began = time.Now() // the time in which others had to think or to end is not the command's
	if r.isClosed() {
		return ErrClosed
	}
	if session := r.Session(); session != nil {
		x.limit()
		if err := session.ResumeContext(x.ctx, x.args); err != nil {
			x.result.TimedOut = x.timeIsUp(err)
			return err
		}
		x.session, x.resumed = session, true
	}
	return x.start()
}

// Preload starts to load the BPF programs for network rules (as root), for which the first command would otherwise
// wait. It returns at once. Calling it is optional. If Config has no rules, or the broker enforces them, it does
// nothing.
func (r *Runner) Preload() {
	if r.config.byRules(&Request{}) && r.config.Enforcer != BrokerEnforcer && len(r.config.Credentials) == 0 && r.config.Sandbox != SandboxDisabled {
		go r.kernel.load()
	}
}

// Explain writes what a request would do, and does nothing; nobody is asked.
func (r *Runner) Explain(ctx context.Context, w io.Writer, q Request) error {
	x, err := r.planned(ctx, q)
	if err != nil {
		return err
	}
	defer x.unplan()
	if r.config.Sandbox == SandboxDisabled {
		_, err := io.WriteString(w, "no sandbox, "+disabledReason+": "+escape.Command(x.args)+"\n")
		return err
	}
	return x.cmd.Explain(w)
}

// planned is an Execution that is only described; unplan must be called.
func (r *Runner) planned(ctx context.Context, q Request) (*Execution, error) {
	return r.plannedWith(ctx, q, false)
}

// plannedWith is planned; with caches, it includes those that a session would add.
func (r *Runner) plannedWith(ctx context.Context, q Request, caches bool) (_ *Execution, err error) {
	x := &Execution{runner: r, request: q, parent: ctx, began: time.Now(), explain: true, caches: caches, landlock: r.landlock()}
	if err := r.config.check(); err != nil {
		return nil, err
	}
	if x.args, err = q.args(); err != nil {
		return nil, err
	}
	if x.request.Paths, err = r.config.realRules(q.Paths); err != nil {
		return nil, err
	}
	r.foresee()
	if err := x.prepare(0); err != nil {
		x.unplan()
		return nil, x.public(err)
	}
	return x, nil
}

// foresee lets the Runner do without overlays where there are none, as the start of its first command would.
func (r *Runner) foresee() {
	f := features.Get(features.Overlay)
	if f.Status != features.No {
		return
	}
	r.plainCaches.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noHomeOverlay = true
	if r.config.Engine == 0 {
		r.engine = overlay.EngineCopy
	}
	for i := range r.noHomeLayer {
		r.noHomeLayer[i] = noHomeOverlay + f.Err().Error()
	}
}

func (x *Execution) unplan() {
	if x.cancel != nil {
		x.cancel()
	}
	x.net.close()
	x.endOwnIDs()
}

// start starts the command, with the backend that this machine allows.
func (x *Execution) start() error {
	err := x.startOnce()
	if err == nil || !x.fallsBack(err) {
		return err
	}
	if x.session != nil && !x.resumed {
		if err := x.session.Remove(); err != nil {
			return err
		}
		x.session = nil
	}
	x.notices = nil
	return x.startOnce()
}

// startOnce starts the command, with the first engine that works.
func (x *Execution) startOnce() error {
	x.landlock = x.runner.landlock()
	err := x.prepare(x.runner.lastEngine())
	for times := 0; err == nil; {
		if err = x.connect(); err != nil {
			break
		}
		if x.runner.config.Watch {
			x.watch.begin(x)
		}
		newCalls := features.Has(features.NewMountCalls)
		if err = x.cmd.Start(); err == nil {
			break
		}
		x.closeStdin()
		// A filter that refuses these is found only by the start.
		filtered := newCalls && !features.Has(features.NewMountCalls)
		if filtered || err == errMoreHidden || x.withoutOwners(err) || x.runner.refuseHome(x, err) || x.mendHome(err) ||
			x.runner.mirror(x, err) || x.withoutCaches(err) || gone(err, &times) {
			x.whole = true
			if err = x.renew(); err == nil {
				err = x.prepare(x.runner.lastEngine())
			}
			continue
		}
		again, other := x.otherEngine(err)
		if again {
			err = nil
			continue
		}
		err = cmp.Or(other, err)
	}
	if err != nil {
		x.watch.end()
		x.result.TimedOut = x.timeIsUp(err)
		if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == nsexec.StepChdir {
			err = &DirError{x.dir, err}
		}
		return err
	}
	x.endOwnIDs()
	if x.noOwners {
		x.runner.noOwners.Store(true)
	}
	if sandbox.Of(x.cmd).HostProc {
		own := features.Describe(features.OwnProc)
		x.notices = append(x.notices, Notice{Kind: NoticeProc, Text: "the command has no /proc of its own, because something is " +
			"mounted over this one: it sees which other processes there are, with their arguments; try: " + own.Remedy})
	}
	if x.net != nil && x.net.started != nil {
		x.net.started(x.cmd)
	}
	x.services.begun()
	for i := range x.homes {
		x.homes[i].layer.Begun()
	}
	x.confined()
	x.later.Found(x.inPlace.found())
	x.later.Begin(x.began)
	x.beginFeed()
	return nil
}

// timeIsUp reports whether err says that the command timed out before it began.
func (x *Execution) timeIsUp(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && x.parent.Err() == nil
}

// mirror reports whether err says that no overlay could be mounted over the home directory, or over a directory in
// which something is hidden; from then on the Runner uses none there.
func (r *Runner) mirror(x *Execution, err error) bool {
	e, ok := errors.AsType[*nsexec.Error](err)
	if !ok || e.Op != nsexec.StepOverlay || e.Mount == 0 || x.mirrored {
		return false
	}
	if m := x.cmd.Mounts[e.Mount-1]; m.Kind != mounts.KindOverlay || !m.ReadOnly {
		return false
	}
	r.mu.Lock()
	r.noHomeOverlay = true
	r.mu.Unlock()
	return true
}
