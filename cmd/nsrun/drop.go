//go:build linux

package main

import (
	"context"
	"flag"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var dropVerb = usage.Verb{
	Name: "drop", Args: "[-q] SESSION PATH…",
	Short: "throw away a part of a session's changes",
	Long: `Removes the changes at and below the paths from the session; nsrun undo brings them back.
The paths may be patterns, as for nsrun commit. The project and the other changes stay as
they are.`,
	Examples: `nsrun drop last '*.log'`,
	Flags:    func(fs *flag.FlagSet) { quietFlag(fs, new(bool)) },
}

// cmdDrop throws a part of a session's changes away.
func cmdDrop(args []string) int {
	console.Unread()
	var quiet bool
	rest, status, ok := dropVerb.Parse(args, func(fs *flag.FlagSet) { quietFlag(fs, &quiet) })
	if !ok {
		return status
	}
	if len(rest) < 2 {
		return console.Fail(usage.Errorf("drop", "takes a session and paths"))
	}
	finishInterrupted()
	s, paths, err := openDecided("drop", rest)
	if err != nil {
		return console.Fail(err)
	}
	defer s.Close()
	dropped, err := record.DropChanges(context.Background(), s, paths...)
	if err == nil || overlay.Done(err) {
		record.Drop(s, dropped)
	}
	if err != nil {
		return failDecision("drop", err, s, overlay.CommitOptions{})
	}
	if !quiet {
		switch s.State() {
		case overlay.Kept:
			console.Say("dropped a part of %s: nsrun show %s", s.ID(), s.ID())
		default:
			console.Say("nothing is left of %s: it is %s", s.ID(), s.State())
		}
	}
	return 0
}
