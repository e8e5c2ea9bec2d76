package main

import (
	"context"
	"flag"

	"github.com/nsrun/nsrun/overlay"
)

func commit(args []string) int {
	var quiet bool
	rest, status, ok := parseVerb("commit", args, func(fs *flag.FlagSet) { quietFlag(fs, &quiet) })
	if !ok {
		return status
	}
	id, paths := sessionArg(rest)
	s, err := overlay.Open("", id)
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	if err := s.Commit(context.Background(), paths...); err != nil {
		return fail(err)
	}
	if !quiet {
		switch s.State() {
		case overlay.Committed:
			say("committed %s", s.ID())
		default:
			say("committed a part of %s: nsrun show %s", s.ID(), s.ID())
		}
	}
	return 0
}

func discard(args []string) int {
	var quiet bool
	rest, status, ok := parseVerb("discard", args, func(fs *flag.FlagSet) { quietFlag(fs, &quiet) })
	if !ok {
		return status
	}
	if len(rest) == 0 {
		rest = []string{"last"}
	}
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
		if !quiet {
			say("discarded %s", s.ID())
		}
	}
	return status
}
