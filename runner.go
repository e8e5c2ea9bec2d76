//go:build linux

package nsrun

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/idmap"
	"github.com/nsrun/nsrun/internal/limiter"
	"github.com/nsrun/nsrun/overlay"
)

// A Runner runs commands in one Config's sandbox: what an agent needs, in one call.
//
//	r := nsrun.NewRunner(nsrun.Config{Project: "/home/me/src", After: nsrun.Commit})
//	res, err := r.Run(ctx, nsrun.Request{Command: "make test"})
//	fmt.Println(res) // stdout, stderr, and the exit code if not zero
//
// Any number of Runners, and of commands of one Runner, can be in use at once. With Keep the commands of one Runner
// share a session, and wait for each other. A Runner does not change the program itself, and reads only its
// environment, at each command. If an Approver or a Recorder panics, the Runner can be used on, and what the command
// changed is kept. The zero Runner is that of the zero Config.
type Runner struct {
	config Config
	ready  sync.Once
	turn   chan struct{} // full: a command uses the session
	apart  bool          // what commands would write in place is thrown away, see Learn

	mu            sync.Mutex
	closed        bool
	session       *overlay.Session // with Keep, once there was a command
	engine        overlay.Engine   // that was found to work; zero: as overlay chooses
	noHomeOverlay bool             // no overlay can be laid over the home directory
	noNamespaces  bool             // this machine refuses them, as a command has found
	noHomeLayer   [2]string        // why what is written to it cannot be kept; empty: it can
	tidied        bool
	answers       map[permission]bool

	plainCaches atomic.Bool // no overlay can be laid over caches of commands without a session

	clearings clearings
	temps     sync.Once // those that were left behind are removed
	kernel    kernel
	limiter   limiter.Host
	ids       idmap.Namespace
	noOwners  atomic.Bool // this machine cannot show the commands' files with other ids
}

// NewRunner returns a Runner, which has a copy of c: c can be changed afterwards, and used again. It does nothing yet:
// if c is wrong, Run returns the error.
func NewRunner(c Config) *Runner { return &Runner{config: c.copied().withPresets()} }

// init makes what the zero Runner lacks.
func (r *Runner) init() {
	r.ready.Do(func() {
		r.turn, r.clearings.slots = make(chan struct{}, 1), make(chan struct{}, maxClearings)
		r.ids.Root = idmap.Root(!r.config.OwnIDs)
	})
}

// copied is c with slices of its own.
func (c Config) copied() Config {
	c.Shared = slices.Clone(c.Shared)
	c.Rules = slices.Clone(c.Rules)
	c.Presets = slices.Clone(c.Presets)
	c.Net.Rules = slices.Clone(c.Net.Rules)
	c.Net.HostAddrs = slices.Clone(c.Net.HostAddrs)
	c.Publish = slices.Clone(c.Publish)
	c.AllowUnix = slices.Clone(c.AllowUnix)
	c.Devices = slices.Clone(c.Devices)
	c.Credentials = slices.Clone(c.Credentials)
	c.Env = slices.Clone(c.Env)
	c.Caches = slices.Clone(c.Caches)
	return c
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

// keep keeps a session for later commands, and reports whether it did.
func (r *Runner) keep(s *overlay.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil && s.State() == overlay.Kept {
		r.session = s
	}
	return r.session == s
}

// Session is the session that the commands of a Runner with Keep share. It must not be closed, and not be used while a
// command runs. Nil: there was no command yet, or the changes were committed or discarded since.
func (r *Runner) Session() *overlay.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// Commit commits what the commands of a Runner with Keep have changed; the next command begins another session. On an
// error the session stays, unless it is a *RecordError or overlay.Done reports true: then it was committed. If there
// was no command yet, nothing is done; after Close the error is ErrClosed.
func (r *Runner) Commit(ctx context.Context, o overlay.CommitOptions) error {
	return r.decide(ctx, func(s *overlay.Session) (recorded, err error) {
		if err = s.CommitWith(ctx, o); err == nil || overlay.Done(err) {
			recorded = r.committed(ctx, s)
		}
		return recorded, err
	})
}

// Discard throws away what the commands of a Runner with Keep have changed; the next command begins another session. If
// there was no command yet, nothing is done; after Close the error is ErrClosed.
func (r *Runner) Discard(ctx context.Context) error {
	return r.decide(ctx, func(s *overlay.Session) (recorded, err error) {
		if err = s.Discard(); err == nil || overlay.Done(err) {
			recorded = r.discarded(ctx, s.ID())
		}
		return recorded, err
	})
}

// decide ends the session that commands share. The work of f is done even if it could not be recorded.
func (r *Runner) decide(ctx context.Context, f func(*overlay.Session) (recorded, err error)) error {
	r.init()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.isClosed() {
		return ErrClosed // the changes are kept: they are neither committed nor gone
	}
	s := r.Session()
	if s == nil {
		return nil
	}
	recorded, err := f(s)
	if err != nil && !overlay.Done(err) {
		return err
	}
	if recorded != nil {
		recorded = &RecordError{recorded}
	}
	if s.State() == overlay.Kept {
		return cmp.Or(err, recorded) // a part was committed
	}
	r.mu.Lock()
	r.session = nil
	r.mu.Unlock()
	r.tidy()
	return cmp.Or(err, s.Close(), recorded)
}

// Close ends the use of a Runner. It waits for commands that share a session (Keep), but not for others, and for the
// removal of what commands left behind. The shared session stays, if it has changes: continue it with Config.Session,
// or with nsrun commit. Closing again does nothing.
func (r *Runner) Close() (err error) {
	r.init()
	defer func() { err = cmp.Or(err, r.clearings.close(), r.kernel.close()); r.limiter.Close(); r.ids.Close() }()
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
				_ = s.Close()
				return fmt.Errorf("remove empty session: %w", err)
			}
		}
	}
	return s.Close()
}

// tidy removes old sessions that have ended, once for a Runner and at most once a day. It ignores errors, because
// nobody asked for this.
func (r *Runner) tidy() {
	r.mu.Lock()
	done := r.tidied
	r.tidied = true
	r.mu.Unlock()
	if !done {
		_ = overlay.CleanDailyWith(r.config.StateDir, overlay.CleanOptions{Ended: r.config.Retention})
		if dir, err := host.HomeLayers(); err == nil {
			_ = homelayer.CleanDaily(dir)
		}
		if registry, keeps := registryOf(r.config.Recorder); keeps {
			_ = registry.CleanDaily(context.Background())
		}
	}
}

func (r *Runner) committed(ctx context.Context, s *overlay.Session) error {
	if r.config.Recorder == nil {
		return nil
	}
	return r.config.Recorder.Committed(ctx, s)
}

// discarded tells the Recorder of a session that was discarded.
func (r *Runner) discarded(ctx context.Context, id string) error {
	if r.config.Recorder == nil {
		return nil
	}
	return r.config.Recorder.Discarded(ctx, id)
}
