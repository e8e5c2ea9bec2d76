//go:build linux

package main

import (
	"flag"
	"time"

	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var undoVerb = usage.Verb{
	Name: "undo", Args: "[--force] [-q] [SESSION]",
	Short: "take back the last commit, drop or discard",
	Long: `Takes back the last commit, drop or discard of a session. Its changes are kept again, and
can be committed again. Undoing a commit restores what it replaced or deleted, and removes
what it added. If the project changed since, undo says so and does nothing, unless --force
is given: then it keeps the newer versions aside, and prints where. A session can be
undone until nsrun gc removes it, a week later. Default: the session of the current
project, never of one around it, that was last committed, dropped from or discarded.`,
	Flags: func(fs *flag.FlagSet) { undoFlags(fs, &undoOptions{}) },
}

type undoOptions struct{ force, quiet bool }

func undoFlags(fs *flag.FlagSet, o *undoOptions) {
	fs.BoolVar(&o.force, "force", false, "undo even if the project changed since")
	quietFlag(fs, &o.quiet)
}

func cmdUndo(args []string) int {
	console.Unread()
	var o undoOptions
	rest, status, ok := undoVerb.Parse(args, func(fs *flag.FlagSet) { undoFlags(fs, &o) })
	if !ok {
		return status
	}
	named := len(rest) > 0
	id, rest, err := sessionArg(rest)
	if len(rest) > 0 {
		return console.Fail(usage.Errorf("undo", "takes one session, and undoes its last commit, drop or discard as a whole"))
	}
	finishInterrupted()
	if err != nil {
		return console.Fail(err)
	}
	if !named {
		if id = decidedHere(); id == "" {
			return console.Fail(advice.Unknown("nsrun ls", "nothing to take back in this project"))
		}
	}
	s, err := overlay.Open("", id)
	if err != nil {
		return console.Fail(err)
	}
	defer s.Close()
	deed := s.Info().Undo
	committed, cerr := s.Committed()
	bar := console.NewBar("taking back", o.quiet)
	ctx, stop := console.Interruptible()
	err = s.Undo(ctx, overlay.UndoOptions{Force: o.force, Progress: bar.Progress()})
	stop()
	bar.End()
	if err != nil && !overlay.Done(err) {
		return failDecision("undo", err, s, overlay.CommitOptions{})
	}
	if deed != overlay.CommitDeed {
		record.Undrop(s)
	} else if left, err := s.Committed(); err == nil && cerr == nil { // else the registry learns it from the next scan
		record.Undo(s, without(committed, left))
	}
	if err != nil {
		return failDecision("undo", err, s, overlay.CommitOptions{})
	}
	if dirs, err := s.Aside(); o.force && !o.quiet && err == nil && len(dirs) > 0 {
		console.Say("later changes are kept in %s", escape.Quote(dirs[len(dirs)-1]))
	}
	if !o.quiet {
		console.Say("took back the %s of %s: nsrun commit %s, or nsrun discard %s", deed, s.ID(), s.ID(), s.ID())
	}
	return 0
}

// without returns which of a session's committed changes an undo took back; left are those of the commits before the
// last one, which come first if they are about the same path.
func without(committed, left []overlay.Change) (list []overlay.Change) {
	type place struct{ root, path string }
	count := make(map[place]int, len(left))
	for _, c := range left {
		count[place{c.Root, c.Path}]++
	}
	for _, c := range committed {
		if at := (place{c.Root, c.Path}); count[at] > 0 {
			count[at]--
		} else {
			list = append(list, c)
		}
	}
	return list
}

// decidedHere is the session of the current project with the newest operation that can be taken back, or empty.
func decidedHere() (id string) {
	var last time.Time
	_ = eachHere(func(in overlay.Info) {
		if in.Undo != overlay.NoDeed && !in.Decided.Before(last) {
			id, last = in.ID, in.Decided
		}
	})
	return id
}
