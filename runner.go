//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/overlay"
)

// A Runner runs commands in one Config's sandbox: what an agent needs, in one call.
//
//	r := nsrun.NewRunner(nsrun.Config{Project: "/home/me/src", After: nsrun.Commit})
//	res, err := r.Run(ctx, nsrun.Request{Command: "make test"})
//	fmt.Println(res) // stdout, stderr, and the exit code if not zero
//
// Any number of Runners, and of commands of one Runner, can be in use at once. With Keep
// the commands of one Runner wait for each other if they have a session, which they share. Nothing of the
// program itself changes, nor does a Runner read anything but the environment at each
// command. Make one with NewRunner.
type Runner struct {
	config Config
	turn   chan struct{} // full: a command uses the session

	mu            sync.Mutex
	closed        bool
	session       *overlay.Session // with Keep, once there was a command
	engine        overlay.Engine   // that was found to work; zero: as overlay chooses
	noHomeOverlay bool             // no overlay can be laid over the home directory
	tidied        bool
	answers       map[permission]bool

	clearings clearings
	kernel    kernel
}

var errNobody = errors.New("there is nobody to ask")

// ErrClosed is what Run and Start return after Runner.Close.
var ErrClosed = errors.New("the Runner was closed")

// NewRunner returns a Runner. It does nothing yet: a mistake in c is what Run returns.
func NewRunner(c Config) *Runner {
	return &Runner{config: c, turn: make(chan struct{}, 1), clearings: newClearings()}
}

// Run runs a command and waits for it.
//
// The error is nil whenever the command ran to its end, was ended for its time, and its
// changes were dealt with, whatever its exit status; the Result tells. Else it says what
// is in the way: *DirError, *DeniedError, *RuleError, *MountError, *Error for mistakes in
// Config and Request; *nsexec.Error, *overlay.Error, *overlay.ConflictError for what lies
// below; the context's error if that ended. Result.Err is the same, so that Result.String
// is what a model is to read in any case. With Hold nobody would have the session: that is
// for Start.
func (r *Runner) Run(ctx context.Context, q Request) (Result, error) {
	if r.config.after() == Hold {
		err := &Error{Op: "run", Err: errors.New("Hold leaves the session to who uses Start")}
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

// Start starts a command. It returns nil only after that was executed. With an error the
// Execution is good for Wait alone, which returns a Result with it.
func (r *Runner) Start(ctx context.Context, q Request) (*Execution, error) {
	x := &Execution{runner: r, request: q, parent: ctx, began: time.Now()}
	if err := r.begin(x); err != nil {
		x.waited = true
		_, err = x.end(x.public(err))
		return x, err
	}
	return x, nil
}

func (r *Runner) begin(x *Execution) (err error) {
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

// Preload begins to load what the first command with a network by rules would have to wait for, the programs in the
// kernel (for root), and does not wait for it. It need not be called. Where Config has no rules, or the broker is
// to enforce them, it does nothing.
func (r *Runner) Preload() {
	if r.config.byRules(&Request{}) && r.config.Enforcer != BrokerEnforcer {
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
	return x.cmd.Explain(w)
}

// planned is an Execution that is only looked at; unplan has to be called.
func (r *Runner) planned(ctx context.Context, q Request) (_ *Execution, err error) {
	x := &Execution{runner: r, request: q, parent: ctx, began: time.Now(), explain: true}
	if err := r.config.check(); err != nil {
		return nil, err
	}
	if x.args, err = q.args(); err != nil {
		return nil, err
	}
	if x.request.Paths, err = r.config.realRules(q.Paths); err != nil {
		return nil, err
	}
	if err := x.prepare(0); err != nil {
		x.unplan()
		return nil, x.public(err)
	}
	return x, nil
}

func (x *Execution) unplan() {
	if x.cancel != nil {
		x.cancel()
	}
	x.net.close()
}

func (r *Runner) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *Runner) lastEngine() overlay.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine
}

func (r *Runner) mirrors() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noHomeOverlay
}

// keep holds on to a session for the commands that follow, and reports whether it did.
func (r *Runner) keep(s *overlay.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil && s.State() == overlay.Kept {
		r.session = s
	}
	return r.session == s
}

// Session is the session that the commands of a Runner with Keep share. It must not be
// closed, and not be used while a command runs. Nil: there was no command yet, or the
// changes were committed or discarded since.
func (r *Runner) Session() *overlay.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// Commit commits what the commands of a Runner with Keep have changed; the next command
// begins another session. On an error the session stays, unless it is a *RecordError:
// then it was committed.
func (r *Runner) Commit(ctx context.Context, o overlay.CommitOptions) error {
	return r.decide(ctx, func(s *overlay.Session) (recorded, err error) {
		if err := s.CommitWith(ctx, o); err != nil {
			return nil, err
		}
		return r.committed(ctx, s), nil
	})
}

// Discard throws away what the commands of a Runner with Keep have changed; the next
// command begins another session.
func (r *Runner) Discard(ctx context.Context) error {
	return r.decide(ctx, func(s *overlay.Session) (recorded, err error) {
		if err := s.Discard(); err != nil {
			return nil, err
		}
		return r.discarded(ctx, s.ID()), nil
	})
}

// decide ends the session that commands share. What f did is done even where it could not
// be recorded.
func (r *Runner) decide(ctx context.Context, f func(*overlay.Session) (recorded, err error)) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s := r.Session()
	if s == nil {
		return nil
	}
	recorded, err := f(s)
	if err != nil {
		return err
	}
	if recorded != nil {
		recorded = &RecordError{recorded}
	}
	if s.State() == overlay.Kept {
		return recorded // a part was committed
	}
	r.mu.Lock()
	r.session = nil
	r.mu.Unlock()
	r.tidy()
	return cmp.Or(s.Close(), recorded)
}

// Close ends the use of a Runner. It waits for commands that share a session (Keep), not for
// others, and until what commands left behind is removed. The session that they shared
// stays, if anything is in it: Config.Session, or nsrun commit, goes on with it. Closing
// again does nothing.
func (r *Runner) Close() (err error) {
	defer func() { err = cmp.Or(err, r.clearings.close(), r.kernel.close()) }()
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.mu.Lock()
	s := r.session
	r.session, r.closed = nil, true
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	if r.config.Session == "" {
		changed := false
		for _, err := range s.Changes() {
			if err != nil {
				_ = s.Close()
				return err
			}
			changed = true
			break
		}
		if !changed {
			if err := s.Remove(); err != nil {
				return fmt.Errorf("remove empty session: %w", err)
			}
		}
	}
	return s.Close()
}

// tidy removes old sessions that have ended, once for a Runner and at most once a day.
// What fails is nothing that anybody asked for.
func (r *Runner) tidy() {
	r.mu.Lock()
	done := r.tidied
	r.tidied = true
	r.mu.Unlock()
	if !done {
		_ = overlay.CleanDaily(r.config.StateDir)
		if registry, keeps := registryOf(r.config.Recorder); keeps {
			_ = registry.CleanDaily(context.Background())
		}
	}
}
