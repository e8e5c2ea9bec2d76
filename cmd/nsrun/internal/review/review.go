//go:build linux

package review

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/internal/screen"
	"github.com/nsrun/nsrun/overlay"
)

// Run shows the changes of a session until the user commits or quits, and returns the exit status. It shows the errors
// in unlisted first. Of o, it uses AllowSpecial and AllowUnsynced.
func Run(s *overlay.Session, changes []overlay.Change, unlisted []error, o overlay.CommitOptions) int {
	r := &reviewer{s: s, options: o, model: newModel(s.ID(), changes, len(s.Roots()) > 1)}
	if unlisted != nil {
		r.model.page = errorsPage(unlisted)
	}
	return r.run()
}

// reviewer connects the model to a session and a terminal. One goroutine does everything except diffs and commits.
type reviewer struct {
	s       *overlay.Session
	options overlay.CommitOptions
	model   *model
	screen  *screen.Screen

	work   sync.WaitGroup // goroutines that use the session
	wanted int            // the row of the diff that was begun last
	making bool           // a diff is being made
	stale  *atomic.Bool   // stops making it
	diffs  chan madeDiff

	cancel   context.CancelFunc // of the commit; nil: there is none
	progress chan overlay.Progress
	results  chan result
}

type madeDiff struct {
	row  int
	diff *diffText
}

// result is the outcome of a commit.
type result struct {
	committed, dropped int              // rows
	registered         bool             // something was committed
	gone               []overlay.Change // the dropped changes
	details            []diff.ConflictDetail
	err                error
}

// run is Run without the unlisted errors.
func (r *reviewer) run() int {
	scr, err := screen.Open()
	if errors.Is(err, screen.ErrNoTerminal) || errors.Is(err, screen.ErrDumb) {
		return console.Fail(advice.With(fmt.Errorf("review: %w", err), "try: nsrun commit "+r.s.ID()+" PATH…"))
	}
	if err != nil {
		return console.Fail(err)
	}
	r.screen = scr
	defer scr.Close()
	defer scr.Guard()
	r.diffs = make(chan madeDiff, 1)
	r.progress = make(chan overlay.Progress, 1)
	r.results = make(chan result, 1)
	end := r.loop()
	// Restore the terminal first: goroutines may still read for a while.
	err = scr.Close()
	if r.stale != nil {
		r.stale.Store(true)
	}
	r.work.Wait()
	status := end()
	if err != nil {
		status = max(status, console.Fail(err))
	}
	return status
}

// loop handles events until one ends the review. The caller restores the terminal, and then calls end, which prints the
// outcome and returns the exit status.
func (r *reviewer) loop() (end func() int) {
	m := r.model
	m.resize(r.screen.Size())
	var dying syscall.Signal // ends nsrun, after the commit
	for {
		r.wantDiff()
		if err := r.screen.Draw(m.view()); err != nil && r.cancel == nil {
			return func() int { return console.Fail(err) }
		}
		select {
		case e := <-r.screen.Events():
			for more := true; more; {
				switch {
				case e.Err != nil:
					dying = unix.SIGHUP
				case e.Signal != 0:
					dying = e.Signal
				case e.Key != "":
					if end := r.act(m.key(e.Key)); end != nil {
						return end
					}
				case e.Paste != "":
					m.paste(e.Paste)
				default:
					m.resize(r.screen.Size())
				}
				select { // draw once for a key that is held down
				case e = <-r.screen.Events():
				default:
					more = false
				}
			}
			if dying != 0 {
				if r.cancel == nil {
					return func() int { return 128 + int(dying) }
				}
				r.cancel()
			}
		case d := <-r.diffs:
			r.making = false
			if d.row == m.current() && !r.stale.Load() {
				m.setDiff(d.row, d.diff)
			}
		case p := <-r.progress:
			if m.busy != "" && p.Total > 0 {
				m.busy = fmt.Sprintf("committing %d of %d", p.Done, p.Total)
			}
		case res := <-r.results:
			r.cancel()
			r.cancel = nil
			if res.err == nil || dying != 0 || res.committed+res.dropped > 0 || isPartial(res.err) || errors.Is(res.err, context.Canceled) {
				return func() int { return r.report(res, dying) }
			}
			m.details = res.details
			m.failed(res.err)
		}
	}
}

// isPartial reports whether a failed commit changed the project.
func isPartial(err error) bool {
	_, ok := errors.AsType[*overlay.CommitError](err)
	return ok
}

// act does an action. A result that is not nil ends the loop.
func (r *reviewer) act(a action) func() int {
	switch a {
	case actQuit:
		return func() int { return 0 }
	case actInterrupt:
		return func() int { return 128 + int(unix.SIGINT) }
	case actSuspend:
		if err := r.screen.Suspend(); err != nil {
			return func() int { return console.Fail(err) }
		}
		r.model.resize(r.screen.Size())
	case actApply:
		r.apply()
	case actCancel:
		r.cancel()
	}
	return nil
}

// wantDiff begins to make the diff of the change under the cursor, if it is missing. Only one diff is made at a time,
// so that moving fast through a list makes few of them.
func (r *reviewer) wantDiff() {
	row := r.model.current()
	if row < 0 || row == r.model.diffOf || r.model.busy != "" {
		return
	}
	if r.making {
		if row != r.wanted {
			r.stale.Store(true)
		}
		return
	}
	r.making, r.wanted, r.stale = true, row, &atomic.Bool{}
	c, stale := r.model.rows[row].Change, r.stale
	r.work.Go(func() {
		defer r.screen.Guard()
		r.diffs <- madeDiff{row, makeDiff(r.s, c, stale)}
	})
}

// apply commits and drops the marked changes.
func (r *reviewer) apply() {
	m := r.model
	choice, _ := m.choice()
	commit, drop, _ := m.counts()
	m.busy = "committing"
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	o := overlay.CommitOptions{
		Paths: choice.commit, Exclude: choice.exclude, Choices: m.choices, AllowExec: true,
		AllowSpecial: r.options.AllowSpecial, AllowUnsynced: r.options.AllowUnsynced,
		Progress: func(p overlay.Progress) {
			select {
			case r.progress <- p:
			default:
			}
		},
	}
	r.work.Go(func() {
		defer r.screen.Guard()
		var res result
		if len(choice.commit) > 0 {
			res.err = r.s.CommitWith(ctx, o)
			res.registered = res.err == nil || overlay.Done(res.err)
			if res.err == nil {
				res.committed = commit
			} else if c, ok := errors.AsType[*overlay.ConflictError](res.err); ok {
				for _, k := range c.Conflicts[:min(len(c.Conflicts), diff.MostConflicts)] {
					res.details = append(res.details, diff.DetailOf(r.s, k))
				}
			}
		}
		if len(choice.drop) > 0 && res.err == nil {
			if res.gone, res.err = record.DropChanges(ctx, r.s, choice.drop...); res.err == nil || overlay.Done(res.err) {
				res.dropped = drop
			}
		}
		r.results <- res
	})
}

// report records and prints the outcome.
func (r *reviewer) report(res result, dying syscall.Signal) (status int) {
	if res.err != nil {
		status = console.Fail(res.err)
	}
	if res.registered {
		record.Commit(r.s)
	}
	if res.dropped > 0 {
		record.Drop(r.s, res.gone)
	}
	what := ""
	if res.committed > 0 {
		what = "committed " + console.Plural(res.committed, "change")
		what += r.model.decided()
	}
	if res.dropped > 0 {
		if what != "" {
			what += ", "
		}
		what += "dropped " + console.Plural(res.dropped, "change")
	}
	if what != "" {
		what += " of " + r.s.ID()
		if r.s.State() == overlay.Kept {
			what += ": nsrun review " + r.s.ID()
		}
		console.Say("%s", what)
	}
	if dying != 0 {
		status = 128 + int(dying)
	}
	return status
}

// failed shows why a commit did nothing.
func (m *model) failed(err error) {
	m.busy = ""
	m.diff, m.diffOf = nil, -1 // somebody may have changed it meanwhile
	if c, ok := errors.AsType[*overlay.ConflictError](err); ok {
		m.page = m.conflictPage(c.Conflicts)
	} else if s, ok := errors.AsType[*overlay.SpecialError](err); ok {
		m.page = m.specialPage(s.Specials)
	} else {
		m.page = &page{title: "nothing was done", keys: "q back", press: back}
		m.page.add(screen.Red, "%v", err)
	}
	m.settle()
}
