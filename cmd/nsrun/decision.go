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
		try := "nsrun review " + special + s.ID()
		if len(o.Paths) <= mostHeld {
			try += ", or " + commitAgain(s, o, slices.Compact(flags)...)
		}
		console.Say("%s held back in %s (try: %s)", console.Plural(len(held), "change"), s.ID(), try)
	}
}

// mostHeld is how many paths a command names.
const mostHeld = 10

// ofHeld are the options of a commit of what another one held back: if that was of some paths, all but these were
// committed, and are no changes any more.
func ofHeld(held []overlay.Change, o overlay.CommitOptions) overlay.CommitOptions {
	if len(o.Paths) == 0 {
		return o
	}
	o.Paths, o.Exclude, o.Choices = nil, nil, nil
	for _, c := range held {
		o.Paths = append(o.Paths, c.Path)
	}
	return o
}

// commitAgain is the command that commits the same of a session, with more flags.
func commitAgain(s *overlay.Session, o overlay.CommitOptions, flags ...string) string {
	again := append([]string{"nsrun", "commit"}, flags...)
	if flag := preferences[o.Prefer]; flag != "" && !slices.Contains(flags, flag) {
		again = append(again, flag)
	}
	for _, f := range [...]struct {
		given bool
		flag  string
	}{{o.AllowExec, "--allow-exec"}, {o.AllowSpecial, "--allow-special"}, {o.AllowUnsynced, "--allow-unsynced"}} {
		if f.given {
			again = append(again, f.flag)
		}
	}
	for _, path := range o.Exclude {
		again = append(again, "--exclude="+path)
	}
	for _, c := range o.Choices {
		again = append(again, preferences[c.Prefer]+"="+c.Path)
	}
	return escape.Command(append(append(again, s.ID()), o.Paths...))
}

// preferences are the flags that decide conflicts.
var preferences = map[overlay.Preference]string{overlay.Theirs: "--theirs", overlay.Ours: "--ours", overlay.Merge: "--merge"}

// failDecision is fail for an operation on a session's changes: it prints everything that the error lists, in lines of
// its own.
func failDecision(verb string, err error, s *overlay.Session, o overlay.CommitOptions) int {
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
		sayConflicts(verb, e.Conflicts, s, at, o)
		return console.ExitFailed
	}
	if e, ok := errors.AsType[*overlay.SpecialError](err); ok {
		for _, sp := range e.Specials {
			console.Say("special: %s %s", at(sp.Root, sp.Path), sp.Why)
		}
		without, try := o, commitAgain(s, o, "--allow-special")
		for _, sp := range e.Specials {
			without.Exclude = append(slices.Clip(without.Exclude), sp.Path)
		}
		if slices.ContainsFunc(o.Paths, func(path string) bool { return !slices.Contains(without.Exclude, path) }) { // else nothing is left
			try = commitAgain(s, without) + ", or " + try
		}
		console.Say("nothing was done (try: %s)", try)
		return console.ExitFailed
	}
	if e, ok := errors.AsType[*overlay.HeldError](err); ok {
		sayHeld(s, e.Changes, overlay.CommitOptions{})
		console.Say("nothing was done")
		return console.ExitFailed
	}
	if errors.Is(err, overlay.ErrUnsynced) {
		console.Say("session %s: %s", s.ID(), overlay.ErrUnsynced)
		console.Say("nothing was done (try: nsrun diff %s, and if nothing is missing, %s)", s.ID(), commitAgain(s, o, "--allow-unsynced"))
		return console.ExitFailed
	}
	if _, half := errors.AsType[*overlay.CommitError](err); !half && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)) {
		err = fmt.Errorf("%w; nothing was done", err)
	}
	return console.Fail(err)
}

// sayConflicts says what prevented a commit of s, or the undo of one, and what to do about it.
func sayConflicts(verb string, list []overlay.Conflict, s *overlay.Session, at func(root, path string) string, o overlay.CommitOptions) {
	var merges, others []string
	told := 0
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
			merges = append(merges, c.Path)
		} else {
			others = append(others, c.Path)
		}
		if len(d.Lines) > 0 {
			told++
		}
		for _, line := range d.Lines {
			console.Say("  %s", line)
		}
	}
	try := "nsrun undo --force " + s.ID()
	if verb != "undo" {
		try = settling(s, o, merges, others)
	}
	console.Say("%s, nothing was done (try: %s)", console.Plural(len(list), "conflict"), try)
}

// mostSettled is how many conflicts a command names.
const mostSettled = 3

// settling are the commands that settle conflicts, those that a merge can settle and others. What was merged before
// stays merged.
func settling(s *overlay.Session, o overlay.CommitOptions, merges, others []string) string {
	merge := len(merges) > 0 || o.Prefer == overlay.Merge
	switch {
	case len(others) == 0:
		return commitAgain(s, o, "--merge")
	case !merge:
		return commitAgain(s, o, "--theirs") + ", or " + commitAgain(s, o, "--ours") + "; --theirs=PATH and --ours=PATH decide one file"
	case len(others) > mostSettled:
		return commitAgain(s, o, "--merge") + ", with --theirs=PATH or --ours=PATH for what cannot be merged"
	}
	for _, path := range others {
		o.Choices = append(slices.Clip(o.Choices), overlay.Choice{Path: path, Prefer: overlay.Theirs})
	}
	return commitAgain(s, o, "--merge") + "; --ours=PATH takes the project's version"
}
