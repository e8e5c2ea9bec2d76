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

// Run shows the changes of a session until the user has decided, or leaves all as it is, and
// returns the exit status. What could not be listed is told first. With special, what gets in
// only if that is asked for is committed too.
func Run(s *overlay.Session, changes []overlay.Change, unlisted []error, special bool) int {
	r := &reviewer{s: s, special: special, model: newModel(s.ID(), changes, len(s.Roots()) > 1)}
	if unlisted != nil {
		r.model.page = errorsPage(unlisted)
	}
	return r.run()
}

// reviewer is the model with a session and a terminal around it. All of it but the
// making of diffs and the commit is done by one goroutine.
type reviewer struct {
	s       *overlay.Session
	special bool
	model   *model
	screen  *screen.Screen

	work   sync.WaitGroup // goroutines that use the session
	wanted int            // the row whose diff was asked for last
	making bool           // a diff is being made
	stale  *atomic.Bool   // tells that one to stop
	diffs  chan madeDiff

	cancel   context.CancelFunc // stops the commit; nil: there is none
	progress chan overlay.Progress
	results  chan result
}

type madeDiff struct {
	row  int
	diff *diffText
}

// result is what came of a commit.
type result struct {
	committed, dropped int
	registered         bool             // something was committed
	gone               []overlay.Change // what was dropped
	details            []diff.ConflictDetail
	err                error
}

// run shows the screen until all is done, and returns the exit status.
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
	// The terminal first: what is still being read may take a while.
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

// loop works until something ends it; what it returns tells about that, once the terminal
// is what it was.
func (r *reviewer) loop() (end func() int) {
	m := r.model
	m.resize(r.screen.Size())
	var dying syscall.Signal // it came while a commit is going on
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
				select { // a key that is held down is drawn once
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

// isPartial reports whether the project was changed by a commit that failed.
func isPartial(err error) bool {
	_, ok := errors.AsType[*overlay.CommitError](err)
	return ok
}

// act does what a key asked for; what it returns ends the loop.
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

// wantDiff has the diff of the change under the cursor made, if it is not there: one at a
// time, so that running through a list makes the first and the last.
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

// apply commits and drops what is marked.
func (r *reviewer) apply() {
	m := r.model
	choice, _ := m.choice()
	commit, drop, _ := m.counts()
	m.busy = "committing"
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	o := overlay.CommitOptions{
		Paths: choice.commit, Exclude: choice.exclude, Choices: m.choices, AllowSpecial: r.special, AllowExec: true,
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
			if res.err = r.s.CommitWith(ctx, o); res.err == nil {
				res.committed = commit
				res.registered = true
			} else if c, ok := errors.AsType[*overlay.ConflictError](res.err); ok {
				for _, k := range c.Conflicts[:min(len(c.Conflicts), diff.MostConflicts)] {
					res.details = append(res.details, diff.DetailOf(r.s, k))
				}
			}
		}
		if len(choice.drop) > 0 && res.err == nil {
			if res.gone, res.err = record.DropChanges(ctx, r.s, choice.drop...); res.err == nil {
				res.dropped = drop
			}
		}
		r.results <- res
	})
}

// report tells what was done.
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

// failed is told why a commit did nothing.
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
