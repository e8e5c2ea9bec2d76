//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay"
)

// sayHeld lists the changes that a commit held back, and says how to commit only them.
func sayHeld(s *overlay.Session, held []overlay.Change, o overlay.CommitOptions) {
	special := ""
	var flags []string
	for _, c := range held {
		name := escape.Quote(c.Path)
		if len(s.Roots()) > 1 {
			name = escape.Quote(c.Root) + ": " + name
		}
		why := c.Special
		if c.Runs != "" {
			if why = "would run later (" + c.Runs + ")"; c.Runs == overlay.Protected {
				why = "is protected"
			}
			flags = append(flags, "--allow-exec")
		}
		if c.Special != "" {
			special = "--allow-special "
			flags = append(flags, "--allow-special")
		}
		console.Say("held back: %s %s", name, why)
	}
	if len(held) > 0 {
		slices.Sort(flags)
		again := append([]string{"nsrun", "commit"}, slices.Compact(flags)...)
		for _, path := range o.Exclude {
			again = append(again, "--exclude="+path)
		}
		again = append(append(again, s.ID()), o.Paths...)
		console.Say("%s held back in %s (try: nsrun review %s%s, or %s)", console.Plural(len(held), "change"), s.ID(), special, s.ID(), escape.Command(again))
	}
}

// failDecision is fail for an operation on a session's changes: it prints everything that the error lists, in lines of
// its own.
func failDecision(verb string, err error, s *overlay.Session) int {
	if errors.Is(err, context.Canceled) {
		console.Say("interrupted: nothing was done")
		return console.ExitInterrupted
	}
	several := len(s.Roots()) > 1
	at := func(root, path string) string {
		if several {
			return escape.Quote(root) + ": " + escape.Quote(path)
		}
		return escape.Quote(path)
	}
	if e, ok := errors.AsType[*overlay.ConflictError](err); ok {
		sayConflicts(verb, e.Conflicts, s, at)
		return console.ExitFailed
	}
	if e, ok := errors.AsType[*overlay.SpecialError](err); ok {
		for _, sp := range e.Specials {
			console.Say("special: %s %s", at(sp.Root, sp.Path), sp.Why)
		}
		console.Say("nothing was done (try: nsrun commit %s with --exclude PATH or --allow-special)", s.ID())
		return console.ExitFailed
	}
	if e, ok := errors.AsType[*overlay.HeldError](err); ok {
		sayHeld(s, e.Changes, overlay.CommitOptions{})
		console.Say("nothing was done")
		return console.ExitFailed
	}
	if errors.Is(err, overlay.ErrUnsynced) {
		console.Say("session %s: %s", s.ID(), overlay.ErrUnsynced)
		console.Say("nothing was done (try: nsrun diff %s, and if nothing is missing, nsrun commit --allow-unsynced %s)", s.ID(), s.ID())
		return console.ExitFailed
	}
	if _, half := errors.AsType[*overlay.CommitError](err); !half && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)) {
		err = fmt.Errorf("%w; nothing was done", err)
	}
	return console.Fail(err)
}

// sayConflicts says what prevented a commit of s, or the undo of one, and what to do about it.
func sayConflicts(verb string, list []overlay.Conflict, s *overlay.Session, at func(root, path string) string) {
	var merges, others, told int
	for _, c := range list {
		console.Say("conflict: %s %s", at(c.Root, c.Path), diff.ConflictText(c))
		if verb != "commit" {
			continue
		}
		var d diff.ConflictDetail
		if told < diff.MostConflicts {
			d = diff.DetailOf(s, c)
		}
		if d.Merges {
			merges++
		} else {
			others++
		}
		if len(d.Lines) > 0 {
			told++
		}
		for _, line := range d.Lines {
			console.Say("  %s", line)
		}
	}
	try := ""
	switch {
	case verb == "undo":
		try = "nsrun undo --force " + s.ID()
	case others == 0:
		try = "nsrun commit --merge " + s.ID()
	case merges > 0:
		try = "nsrun commit " + s.ID() + " with --merge, and --theirs=PATH or --ours=PATH for what cannot be merged"
	default:
		try = "nsrun commit " + s.ID() + " with --theirs or --ours, or --theirs=PATH and --ours=PATH"
	}
	console.Say("%s, nothing was done (try: %s)", console.Plural(len(list), "conflict"), try)
}
