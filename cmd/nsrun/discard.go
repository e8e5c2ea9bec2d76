//go:build linux

package main

import (
	"flag"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var discardVerb = usage.Verb{
	Name: "discard", Args: "[-q] [SESSION…]",
	Short: "throw away a session's changes",
	Examples: `nsrun discard
nsrun discard last`,
	Flags: func(fs *flag.FlagSet) { quietFlag(fs, new(bool)) },
}

func cmdDiscard(args []string) int {
	console.Unread()
	var quiet bool
	rest, status, ok := discardVerb.Parse(args, func(fs *flag.FlagSet) { quietFlag(fs, &quiet) })
	if !ok {
		return status
	}
	if len(rest) == 0 {
		id, err := decidable("discard")
		if err != nil {
			return console.Fail(err)
		}
		rest = []string{id}
	}
	finishInterrupted()
	for _, word := range rest {
		var s *overlay.Session
		hint := ""
		id, err := sessionNamed(word)
		if err == nil {
			s, err = overlay.Open("", id)
		}
		if err == nil && s.State() == overlay.Committed {
			err = ended(s)
			_ = s.Close()
		} else if err == nil {
			err = s.Discard()
			hint = undoHint(s)
			_ = s.Close()
		}
		if err != nil {
			status = console.Fail(err)
		}
		if err == nil || overlay.Done(err) {
			record.Discard(s.ID())
		}
		if err == nil && !quiet {
			console.Say("discarded %s%s", s.ID(), hint)
		}
	}
	record.Tidy()
	return status
}

// undoHint says how to take back a discard, or that this is impossible: on a full disk, a discard frees the space at
// once.
func undoHint(s *overlay.Session) string {
	if s.Info().Undo != overlay.DiscardDeed {
		return " for good: the disk is full"
	}
	return ": nsrun undo " + s.ID() + " takes it back"
}
