//go:build linux

package main

import (
	"cmp"
	"context"
	"flag"

	"github.com/nsrun/nsrun/overlay"
)

const undoHelp = `What the session's last commit replaced and deleted is put back, what it made is
taken out again. The changes are kept then, and can be committed again. Where
the project was changed since, that is said and nothing is done, but with
--force: what was changed is kept then, and it is said where. It works until nsrun gc removes the session, which is a week later.
Where no session is named the project's newest is meant that was committed.`

type undoOptions struct{ force, quiet bool }

func undoFlags(fs *flag.FlagSet, o *undoOptions) {
	fs.BoolVar(&o.force, "force", false, "take it back even where the project was changed since")
	quietFlag(fs, &o.quiet)
}

func undo(args []string) int {
	var o undoOptions
	rest, status, ok := parseVerb("undo", args, func(fs *flag.FlagSet) { undoFlags(fs, &o) })
	if !ok {
		return status
	}
	named := len(rest) > 0
	id, rest := sessionArg(rest)
	if len(rest) > 0 {
		return fail(&usageError{"undo", "takes one session, and takes all of its last commit back"})
	}
	tellRecovered()
	if !named {
		id = cmp.Or(newestHere(func(in overlay.Info) bool { return in.Commits > 0 }), id)
	}
	if id == "" {
		return fail(errNoneHere)
	}
	s, err := overlay.Open("", id)
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	committed, cerr := s.Committed()
	bar := newBar("taking back", o.quiet)
	ctx, stop := interruptible()
	err = s.Undo(ctx, overlay.UndoOptions{Force: o.force, Progress: bar.progress()})
	stop()
	bar.end()
	if err != nil {
		return failDecision("undo", err, s)
	}
	if cerr == nil { // else the registry learns it from the next scan
		registerUndo(s, committed)
	}
	if dirs, err := s.Aside(); o.force && !o.quiet && err == nil && len(dirs) > 0 {
		say("what was changed since is kept in %s", quote(dirs[len(dirs)-1]))
	}
	if !o.quiet {
		say("took back the commit of %s: nsrun commit %s, or nsrun discard %s", s.ID(), s.ID(), s.ID())
	}
	return 0
}

const dropHelp = `The changes at and below the paths, which may be patterns as for nsrun commit,
are taken out of the session, for good. The project is not touched, and the
other changes stay.`

// drop throws a part of a session's changes away.
func drop(args []string) int {
	var quiet bool
	rest, status, ok := parseVerb("drop", args, func(fs *flag.FlagSet) { quietFlag(fs, &quiet) })
	if !ok {
		return status
	}
	if len(rest) < 2 {
		return fail(&usageError{"drop", "takes a session and paths: what is dropped is lost"})
	}
	tellRecovered()
	s, err := overlay.Open("", rest[0])
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	dropped, err := dropChanges(context.Background(), s, rest[1:]...)
	if err != nil {
		return failDecision("drop", err, s)
	}
	registerDrop(s, dropped)
	if !quiet {
		switch s.State() {
		case overlay.Kept:
			say("dropped a part of %s: nsrun show %s", s.ID(), s.ID())
		default:
			say("nothing is left of %s: it is %s", s.ID(), s.State())
		}
	}
	return 0
}
