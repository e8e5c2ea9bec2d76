//go:build linux

package main

import (
	"errors"
	"flag"

	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var commitVerb = usage.Verb{
	Name: "commit", Args: "[flags] [SESSION] [PATH…]",
	Short: "copy a session's changes to the project",
	Long: `Commits all changes, or those at and below the paths, or none if that fails. Paths are
absolute or relative to the project, and may be patterns: *, ?, [a-z], and ** for any
number of directories. If both sides changed a file, commit lists both versions and does
nothing until you choose --theirs, --ours or --merge, for all conflicts, or with a path or
pattern, as in --ours=go.mod, for those at and below it; the last one wins. Files that
would run later (hooks, editor settings; nsrun show marks them) stay in the session unless
a path names the very file or --allow-exec is given. Setuid files, FIFOs and the like need
--allow-special: without it they stay in the session, and a commit of paths with such files
does nothing. Times are not shown, but are committed with the changes. nsrun undo takes a
commit back.`,
	Examples: `nsrun commit
nsrun commit last 'src/**' --exclude '*.log'
nsrun commit --merge --ours=go.mod`,
	Flags: func(fs *flag.FlagSet) { commitFlags(fs, &commitOptions{}) },
}

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
		{&o.theirs, overlay.Theirs, "theirs", "if both sides changed a file, take the session's version; =PATH limits it to that path (repeatable)"},
		{&o.ours, overlay.Ours, "ours", "if both sides changed a file, keep the project's version; =PATH limits it to that path (repeatable)"},
		{&o.merge, overlay.Merge, "merge", "if both sides changed a text, merge the changes; =PATH limits it to that path (repeatable)"},
	} {
		*f.flag = preferFlag{to: &o.Choices, prefer: f.prefer}
		fs.Var(f.flag, f.name, f.usage)
	}
	allowSpecialFlag(fs, &o.AllowSpecial)
	allowExecFlag(fs, &o.AllowExec)
	allowUnsyncedFlag(fs, &o.AllowUnsynced)
	quietFlag(fs, &o.quiet)
}

// prefer returns what the flags say about conflicts.
func (o *commitOptions) prefer() (p overlay.Preference, err error) {
	n := 0
	for _, f := range [...]preferFlag{o.theirs, o.ours, o.merge} {
		if f.given {
			p = f.prefer
			n++
		}
	}
	if n > 1 {
		err = usage.Errorf("commit", "--theirs, --ours and --merge without a path exclude each other")
	}
	return p, err
}

func cmdCommit(args []string) int {
	console.Unread()
	var o commitOptions
	rest, status, ok := commitVerb.Parse(args, func(fs *flag.FlagSet) { commitFlags(fs, &o) })
	if !ok {
		return status
	}
	var err error
	if o.Prefer, err = o.prefer(); err != nil {
		return console.Fail(err)
	}
	finishInterrupted()
	s, paths, err := openDecided("commit", rest)
	if err != nil {
		return console.Fail(err)
	}
	defer s.Close()
	o.Paths = paths
	bar := console.NewBar("committing", o.quiet)
	o.Progress, o.Waiting = bar.Progress(), bar.Waiting
	o.HoldSpecial = len(o.Paths) == 0
	ctx, stop := console.Interruptible()
	before, _ := s.Committed()
	err = s.CommitWith(ctx, o.CommitOptions)
	stop()
	bar.End()
	if e, ok := errors.AsType[*overlay.HeldError](err); ok {
		sayHeld(s, e.Changes, o.CommitOptions)
		console.Say("nothing was done")
		return console.ExitFailed
	}
	if err == nil || overlay.Done(err) {
		record.Commit(s)
	}
	if err != nil {
		return failDecision("commit", err, s, o.CommitOptions)
	}
	if !o.quiet {
		sayCommittedLater(s, before)
	}
	if !o.quiet {
		switch s.State() {
		case overlay.Committed:
			console.Say("committed %s", s.ID())
		default:
			console.Say("committed a part of %s: nsrun show %s", s.ID(), s.ID())
		}
	}
	sayHeld(s, s.Held(), ofHeld(s.Held(), o.CommitOptions))
	record.Tidy()
	return 0
}

// sayCommittedLater names the changes that run later and that this commit has put into the project.
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
		name := escape.Quote(c.Path)
		if len(s.Roots()) > 1 {
			name = escape.Quote(c.Root) + ": " + name
		}
		if c.Runs == overlay.Protected {
			console.Say("committed: %s (%s)", name, c.Runs)
			continue
		}
		console.Say("committed, and runs later: %s (%s)", name, c.Runs)
	}
}

// preferFlag is --theirs, --ours or --merge: without a value it decides all conflicts, with a path those at and below
// it.
type preferFlag struct {
	to     *[]overlay.Choice
	prefer overlay.Preference
	given  bool
}

func (f *preferFlag) String() string { return "" }

func (f *preferFlag) IsBoolFlag() bool { return true }

func (f *preferFlag) Set(path string) error {
	switch path {
	case "":
		return errors.New("a path is missing after the =")
	case "true":
		f.given = true
	case "false":
		f.given = false
	default:
		*f.to = append(*f.to, overlay.Choice{Path: path, Prefer: f.prefer})
	}
	return nil
}
