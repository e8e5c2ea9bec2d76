//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/review"
	"github.com/nsrun/nsrun/overlay"
)

// finish decides what happens to the changes, and says so.
func (r *runner) finish(status int) error {
	if r.session == nil {
		r.endNotify()
		return nil
	}
	r.state = overlay.Kept.String()
	unlisted := r.collect()
	if r.interrupted {
		return nil // the session stays as it is
	}
	if unlisted != nil && r.o.discard && r.execution.Unstored() == nil {
		console.Say("not listed: %s", unlisted) // what is thrown away need not be
		unlisted = nil
	}
	if unlisted != nil && len(r.changes) == 0 {
		return unlisted
	}
	if len(r.changes) == 0 {
		return r.finishUnchanged(status)
	}
	if !r.o.quiet {
		var moved []overlay.Rename
		if slices.ContainsFunc(r.changes, func(c overlay.Change) bool { return c.Kind == overlay.Deleted }) {
			moved, _ = r.session.Renames(r.changes) // without, they are listed one by one
		}
		console.ClearModes()
		diff.Print(os.Stderr, "nsrun: ", r.changes, moved, len(r.session.Roots()) > 1)
	}
	// A later merge needs this, so it comes before the question; if nothing is to be kept, it comes only if that
	// fails.
	var preserved error
	if kept := !r.o.discard && (!r.o.commit || status != 0); kept && unlisted == nil {
		preserved = r.preserve()
	}
	decision := "keep"
	if unlisted == nil {
		decision = r.decide(status)
	}
	if decision == "review" && r.execution.Unstored() == nil {
		if preserved != nil {
			console.Say("%s", preserved)
		}
		review.Run(r.session, r.changes, nil, overlay.CommitOptions{})
		r.state = r.session.State().String()
		r.sayKept(r.remaining())
		return nil
	}
	switch decision {
	case "commit":
		return r.commitChanges()
	case "discard":
		return r.discardChanges()
	default:
		if r.execution.Unstored() != nil {
			return preserved
		}
		if preserved != nil {
			console.Say("%s", preserved)
		}
		r.sayKept(len(r.changes))
	}
	return unlisted
}

// finishUnchanged ends a session without changes.
func (r *runner) finishUnchanged(status int) error {
	if r.session.Retimed() > 0 && r.o.commit && status == 0 { // as make's stamps
		bar := console.NewBar("committing", r.o.quiet)
		ctx, stop := console.Interruptible()
		err := r.session.CommitWith(ctx, overlay.CommitOptions{Waiting: bar.Waiting, Wait: r.o.timeout})
		stop()
		if err != nil {
			return err
		}
		r.state = overlay.Committed.String()
		return nil
	}
	if !r.o.quiet && (r.o.keep || console.IsTerminal(os.Stderr)) {
		console.Say("no changes")
	}
	if r.o.session != "" {
		return nil
	}
	r.state = overlay.Discarded.String()
	return r.drop()
}

// commitChanges commits the changes, and keeps those that could not be committed.
func (r *runner) commitChanges() error {
	bar := console.NewBar("committing", r.o.quiet)
	ctx, stop := console.Interruptible()
	err := r.session.CommitWith(ctx, overlay.CommitOptions{
		Progress: bar.Progress(), Waiting: bar.Waiting, Wait: r.o.timeout,
		AllowExec: r.o.allowExec, AllowSpecial: r.o.allowSpecial, HoldSpecial: true,
	})
	stop()
	bar.End()
	r.held = r.session.Held()
	if _, nothing := errors.AsType[*overlay.HeldError](err); nothing {
		sayHeld(r.session, r.held, overlay.CommitOptions{})
		if perr := r.preserve(); perr != nil {
			console.Say("%s", perr)
		}
		return nil
	}
	if err != nil {
		r.held = nil
		if overlay.Done(err) {
			r.state = overlay.Committed.String()
			record.Commit(r.session)
		}
		if _, applied := errors.AsType[*overlay.CommitError](err); applied {
			return err
		}
		if perr := r.preserve(); perr != nil {
			console.Say("%s", perr)
		}
		if r.execution.Unstored() == nil {
			console.Say("the changes are kept as session %s", r.session.ID())
		}
		return err
	}
	r.state = overlay.Committed.String()
	record.Commit(r.session)
	if !r.o.quiet {
		console.Say("committed %s", console.Plural(len(r.changes)-r.left(), "change"))
	}
	if r.held != nil {
		sayHeld(r.session, r.held, overlay.CommitOptions{})
		if err := r.session.Preserve(context.Background(), r.held); err != nil {
			console.Say("%s", err)
		}
	}
	return nil
}

func (r *runner) discardChanges() error {
	end, hint := r.session.Discard, undoHint
	if r.o.discard { // which was said beforehand: nobody has anything to miss
		end, hint = r.session.Erase, func(*overlay.Session) string { return "" }
	}
	err := end()
	if err != nil && !overlay.Done(err) {
		return err
	}
	r.state = overlay.Discarded.String()
	record.Discard(r.session.ID())
	if err == nil && !r.o.quiet {
		console.Say("discarded %s%s", console.Plural(len(r.changes), "change"), hint(r.session))
	}
	return err
}

// sayKept says how many changes the session has, if it has any, and what to do with them.
func (r *runner) sayKept(n int) {
	if id := r.session.ID(); n > 0 && !r.o.quiet {
		console.Say("kept %s: nsrun commit %s, or nsrun discard %s", console.Plural(n, "change"), id, id)
	}
}

// left is how many changes a commit left: those that were held back, and directories that contain nothing else.
func (r *runner) left() (n int) {
	if r.held == nil {
		return 0
	}
	return r.remaining()
}

// remaining is how many changes the session still has.
func (r *runner) remaining() (n int) {
	for _, err := range r.session.Changes() {
		if err == nil {
			n++
		}
	}
	return n
}

// decide returns what to do with the changes: what the flags say; else, on a terminal, what the user says; else keep.
func (r *runner) decide(status int) string {
	switch {
	case r.o.commit && status != 0:
		console.Say("the command failed: its changes are not committed")
		return "keep"
	case r.o.commit:
		return "commit"
	case r.o.discard:
		return "discard"
	case !r.asks():
		return "keep"
	}
	for {
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGQUIT)
		answer := console.AskUntil(ctx, "commit, discard or keep (r: review, v: diff, ?: help)? [c/d/K]")
		r.interrupted = ctx.Err() != nil
		stop()
		switch answer {
		case "c", "commit":
			return "commit"
		case "d", "discard":
			return "discard"
		case "r", "review":
			return "review"
		case "v", "view", "diff":
			if err := r.view(); err != nil {
				console.Say("%s", err)
			}
		case "?", "h", "help":
			console.Say("c: the changes are committed to the project; nsrun undo takes them back")
			console.Say("d: the changes are discarded")
			console.Say("k: the changes are kept as a session, for nsrun diff, review, commit, discard")
			console.Say("r: choose changes one by one; v: show the diff")
		default:
			return "keep"
		}
	}
}

// view shows the diff on the terminal.
func (r *runner) view() error {
	moved, err := r.session.Renames(r.changes)
	if err != nil {
		return err
	}
	colour, err := (&diffFlags{colour: "auto"}).useColour(console.IsTerminal(os.Stdout))
	if err != nil {
		return err
	}
	out := console.OpenOutput()
	o := diff.Options{Colour: colour, Escape: out.Terminal, Several: len(r.session.Roots()) > 1, Renames: diff.IndexRenames(moved)}
	for _, c := range r.changes {
		if err == nil && !o.Renames.Inside(c) {
			err = diff.Write(out, r.session, c, o)
		}
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return console.Unwanted(err)
}

// asks reports whether the user is asked, once there are changes.
func (r *runner) asks() bool {
	return !r.o.direct && !r.o.commit && !r.o.discard && !r.o.keep && console.IsTerminal(os.Stdin) && console.IsTerminal(os.Stderr)
}

// drop removes a session without changes.
func (r *runner) drop() error {
	r.dropped = true
	return r.session.Remove()
}

// lost says what happens to the command's changes if nsrun ends before they are stored.
func (r *runner) lost() string {
	if r.session != nil && r.session.Info().Engine == overlay.EngineTmpfs {
		return "what is not stored is lost"
	}
	return "the next nsrun keeps what the command changed"
}

// collect stores what the command wrote, and finds the changes. If storing fails, the changes exist until the program
// ends, and can still be committed.
func (r *runner) collect() error {
	ctx, stop := console.Insistent("storing what the command changed; a second Ctrl-C gives up", r.lost())
	defer stop()
	r.endNotify()
	bar := console.NewBar("looking for changes", r.o.quiet)
	show := bar.Progress()
	err := r.execution.Collect(overlay.WithProgress(ctx, func(p overlay.Progress) {
		if p.Total > 0 {
			bar.Then("removing the copy of the project")
		} else if show != nil {
			show(p)
		}
	}))
	bar.End()
	r.changes = r.execution.Changes()
	if r.watched != nil {
		<-r.watched
	}
	res, _ := r.execution.Wait()
	r.tell(res)
	if why := r.execution.Unstored(); why != nil {
		if errors.Is(why, context.Canceled) && r.session.Info().Engine == overlay.EngineCopy {
			console.Say("interrupted: session %s has the copy; the changes are found when somebody asks for them (try: nsrun show %s)", r.session.ID(), r.session.ID())
			r.interrupted = true
			return why
		}
		console.Fail(why)
		if r.session.Info().Engine == overlay.EngineTmpfs {
			console.Say("commit the changes now, or they are lost")
		}
	}
	return err
}

// preserve keeps what a later merge needs.
func (r *runner) preserve() error {
	if r.execution.Unstored() != nil {
		return errors.New("the changes could not be kept")
	}
	return r.session.Preserve(context.Background(), r.changes)
}
