//go:build linux

package main

import (
	"flag"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/review"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var reviewVerb = usage.Verb{
	Name: "review", Args: "[flags] [SESSION]",
	Short: "choose interactively what to commit and what to drop",
	Long: `Shows a list of the changes, and the diff of the selected one. A new directory is one line
until enter opens it. Space marks a change to be committed, d marks it to be dropped, and
c commits and drops the marked ones, after a question. Unmarked changes stay in the
session. ? lists all keys. Without a terminal, use nsrun commit SESSION PATH….`,
	Flags: func(fs *flag.FlagSet) { reviewFlags(fs, new(overlay.CommitOptions)) },
}

func reviewFlags(fs *flag.FlagSet, o *overlay.CommitOptions) {
	allowSpecialFlag(fs, &o.AllowSpecial)
	allowUnsyncedFlag(fs, &o.AllowUnsynced)
}

func cmdReview(args []string) int {
	var o overlay.CommitOptions
	rest, status, ok := reviewVerb.Parse(args, func(fs *flag.FlagSet) { reviewFlags(fs, &o) })
	if !ok {
		return status
	}
	if len(rest) > 1 {
		return console.Fail(usage.Errorf("review", "takes one session"))
	}
	finishInterrupted()
	s, _, err := openDecided("review", rest)
	if err != nil {
		return console.Fail(err)
	}
	defer s.Close()
	if s.Info().Unsynced && !o.AllowUnsynced {
		return failDecision("review", overlay.ErrUnsynced, s, overlay.CommitOptions{})
	}
	var changes []overlay.Change
	var bad []error
	for c, err := range s.Changes() {
		if err != nil {
			bad = append(bad, err)
			continue
		}
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		for _, err := range bad {
			status = console.Fail(err)
		}
		if status == 0 {
			console.Say("%s changed nothing", s.ID())
		}
		return status
	}
	return review.Run(s, changes, bad, o)
}
