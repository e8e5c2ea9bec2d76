//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay"
)

const commitHelp = `All of them, or those at and below the paths, which are absolute or relative to
the project and may be patterns: *, ?, [a-z], and ** for any number of
directories. It is all or nothing. Where something else changed the same files
meanwhile, that is said and nothing is done, unless --theirs, --ours or --merge
decides: for all of them, or with a path, as in --ours=go.mod, at and below that
path, which may be a pattern too; what was given last counts. What would run
later (hooks, settings of editors: nsrun show marks it) stays in the session,
unless a path names the very file, or with --allow-exec. Setuid files, FIFOs and
the like are committed with --allow-special only, named or not. Times are not shown,
but they come with the changes. nsrun undo
takes a commit back.`

type commitOptions struct {
	overlay.CommitOptions
	theirs, ours, merge preferFlag
	quiet               bool
}

func commitFlags(fs *flag.FlagSet, o *commitOptions) {
	fs.Var((*listFlag)(&o.Exclude), "exclude", "leave out a `path`, a pattern, or a name in any directory (repeatable)")
	for _, f := range [...]struct {
		flag   *preferFlag
		prefer overlay.Preference
		name   string
		usage  string
	}{
		{&o.theirs, overlay.Theirs, "theirs", "where both changed a file, take the session's; with =PATH at that path only (repeatable)"},
		{&o.ours, overlay.Ours, "ours", "where both changed a file, leave the project's; with =PATH at that path only (repeatable)"},
		{&o.merge, overlay.Merge, "merge", "where both changed a text, put both changes into it; with =PATH at that path only (repeatable)"},
	} {
		*f.flag = preferFlag{o: o, prefer: f.prefer}
		fs.Var(f.flag, f.name, f.usage)
	}
	allowSpecialFlag(fs, &o.AllowSpecial)
	allowExecFlag(fs, &o.AllowExec)
	quietFlag(fs, &o.quiet)
}

// prefer is what the flags say about conflicts.
func (o *commitOptions) prefer() (p overlay.Preference, err error) {
	n := 0
	for _, f := range [...]preferFlag{o.theirs, o.ours, o.merge} {
		if f.given {
			p = f.prefer
			n++
		}
	}
	if n > 1 {
		err = &usageError{"commit", "--theirs, --ours and --merge without a path exclude each other"}
	}
	return p, err
}

func commit(args []string) int {
	unread()
	var o commitOptions
	rest, status, ok := parseVerb("commit", args, func(fs *flag.FlagSet) { commitFlags(fs, &o) })
	if !ok {
		return status
	}
	var err error
	if o.Prefer, err = o.prefer(); err != nil {
		return fail(err)
	}
	var id string
	tellRecovered()
	if id, o.Paths, err = decideArg("commit", rest); err != nil {
		return fail(err)
	}
	s, err := overlay.Open("", id)
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	bar := newBar("committing", o.quiet)
	o.Progress = bar.progress()
	ctx, stop := interruptible()
	before, _ := s.Committed()
	err = s.CommitWith(ctx, o.CommitOptions)
	stop()
	bar.end()
	if e, ok := errors.AsType[*overlay.HeldError](err); ok {
		sayHeld(s, e.Changes, o.CommitOptions)
		say("nothing was done")
		return exitFailed
	}
	if err != nil {
		return failDecision("commit", err, s)
	}
	registerCommit(s)
	if !o.quiet {
		sayCommittedLater(s, before)
	}
	if !o.quiet {
		switch s.State() {
		case overlay.Committed:
			say("committed %s", s.ID())
		default:
			say("committed a part of %s: nsrun show %s", s.ID(), s.ID())
		}
	}
	sayHeld(s, s.Held(), o.CommitOptions)
	tidy()
	return 0
}

// sayCommittedLater tells which of the session's changes are in the project now, and were not
// before, that would run later.
func sayCommittedLater(s *overlay.Session, before []overlay.Change) {
	type place struct{ root, path string }
	told := make(map[place]bool, len(before))
	for _, c := range before {
		told[place{c.Root, c.Path}] = true
	}
	done, _ := s.Committed()
	for _, c := range done {
		if c.Runs == "" || told[place{c.Root, c.Path}] {
			continue
		}
		name := quote(c.Path)
		if len(s.Roots()) > 1 {
			name = quote(c.Root) + ": " + name
		}
		say("committed, and runs later: %s (%s)", name, c.Runs)
	}
}

func allowExecFlag(fs *flag.FlagSet, to *bool) {
	fs.BoolVar(to, "allow-exec", false, "commit what would run later too: hooks, settings of editors and the like")
}

// sayHeld tells what was not committed because it would run later or is special, and how it can be: no more than
// was to be committed.
func sayHeld(s *overlay.Session, held []overlay.Change, o overlay.CommitOptions) {
	special := ""
	var flags []string
	for _, c := range held {
		name := quote(c.Path)
		if len(s.Roots()) > 1 {
			name = quote(c.Root) + ": " + name
		}
		why := c.Special
		if c.Runs != "" {
			why = "would run later (" + c.Runs + ")"
			flags = append(flags, "--allow-exec")
		}
		if c.Special != "" {
			special = "--allow-special "
			flags = append(flags, "--allow-special")
		}
		say("held back: %s %s", name, why)
	}
	if len(held) > 0 {
		slices.Sort(flags)
		again := append([]string{"nsrun", "commit"}, slices.Compact(flags)...)
		for _, path := range o.Exclude {
			again = append(again, "--exclude="+path)
		}
		again = append(append(again, s.ID()), o.Paths...)
		say("%s held back in %s (try: nsrun review %s%s, or %s)", plural(len(held), "change"), s.ID(), special, s.ID(), quoteCommand(again))
	}
}

// interruptible is a context that ends when the user has had enough. Until stop is
// called signals do nothing else: what must not be interrupted is not.
func interruptible() (ctx context.Context, stop func()) {
	return signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
}

// failDecision is fail for what was to be done with a session's changes: all that it met
// is told, in lines of its own.
func failDecision(verb string, err error, s *overlay.Session) int {
	if errors.Is(err, context.Canceled) {
		say("interrupted: nothing was done")
		return 128 + int(unix.SIGINT)
	}
	several := len(s.Roots()) > 1
	at := func(root, path string) string {
		if several {
			return quote(root) + ": " + quote(path)
		}
		return quote(path)
	}
	if e, ok := errors.AsType[*overlay.ConflictError](err); ok {
		sayConflicts(verb, e.Conflicts, s, at)
		return exitFailed
	}
	if e, ok := errors.AsType[*overlay.SpecialError](err); ok {
		for _, sp := range e.Specials {
			say("special: %s %s", at(sp.Root, sp.Path), sp.Why)
		}
		say("nothing was done (try: nsrun commit %s with --exclude PATH or --allow-special)", s.ID())
		return exitFailed
	}
	if e, ok := errors.AsType[*overlay.HeldError](err); ok {
		sayHeld(s, e.Changes, overlay.CommitOptions{})
		say("nothing was done")
		return exitFailed
	}
	if _, half := errors.AsType[*overlay.CommitError](err); !half && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)) {
		err = fmt.Errorf("%w; nothing was done", err)
	}
	return fail(err)
}

func discard(args []string) int {
	unread()
	var quiet bool
	rest, status, ok := parseVerb("discard", args, func(fs *flag.FlagSet) { quietFlag(fs, &quiet) })
	if !ok {
		return status
	}
	if len(rest) == 0 {
		id, err := decidable("discard")
		if err != nil {
			return fail(err)
		}
		rest = []string{id}
	}
	tellRecovered()
	for _, id := range rest {
		s, err := overlay.Open("", id)
		if err == nil {
			err = s.Discard()
			_ = s.Close()
		}
		if err != nil {
			status = fail(err)
			continue
		}
		registerDiscard(s.ID())
		if !quiet {
			say("discarded %s: nsrun undo %s takes it back", s.ID(), s.ID())
		}
	}
	tidy()
	return status
}
