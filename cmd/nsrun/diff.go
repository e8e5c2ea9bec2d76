//go:build linux

package main

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"slices"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var diffVerb = usage.Verb{
	Name: "diff", Args: "[flags] [SESSION] [PATH…]",
	Short: "show what a session changed in files",
	Long: `Shows all changes, or those at and below the paths. Paths are absolute or relative to the
project. They may be patterns: *, ?, [a-z], and ** for any number of directories. --stat
and --name-status print deletions first, then moved files (R, with the similarity in
percent).

nsrun diff --patch | git apply, at the top of another copy of the project, makes the same
changes there: text and binary contents, symbolic links, and execute permission. (Below
the top of a git work tree, git apply needs --directory.) Standard error lists the changes
that a patch cannot hold: empty directories, named pipes, other modes, owners, attributes.
A patch has no times.`,
	Examples: `nsrun diff --stat
nsrun diff last 'src/**'`,
	Flags: func(fs *flag.FlagSet) { new(diffFlags).define(fs) },
}

// diffFlags are the flags of nsrun diff.
type diffFlags struct {
	colour                  string
	stat, nameStatus, patch bool
}

func (f *diffFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.colour, "color", "auto", "use colours: `auto|always|never`")
	fs.BoolVar(&f.nameStatus, "name-status", false, "print a letter and a path for each change")
	fs.BoolVar(&f.patch, "patch", false, "print a patch for git apply")
	fs.BoolVar(&f.stat, "stat", false, "print how many lines changed in each file")
}

// useColour decides for standard output.
func (f *diffFlags) useColour(terminal bool) (bool, error) {
	switch f.colour {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", nil
	}
	return false, usage.Errorf("diff", "--color is auto, always or never")
}

func cmdDiff(args []string) int {
	var f diffFlags
	rest, status, ok := diffVerb.Parse(args, f.define)
	if !ok {
		return status
	}
	terminal := console.IsTerminal(os.Stdout)
	colour, err := f.useColour(terminal)
	if err != nil {
		return console.Fail(err)
	}
	if f.stat && f.nameStatus || f.stat && f.patch || f.nameStatus && f.patch {
		return console.Fail(usage.Errorf("diff", "--stat, --name-status and --patch exclude each other"))
	}
	finishRestorations()
	id, paths, err := sessionArg(rest)
	if err != nil {
		return console.Fail(err)
	}
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return console.Fail(err)
	}
	if err := ended(s); err != nil {
		_ = s.Close()
		return console.Fail(err)
	}
	if s.Info().Unsynced {
		console.Say("session %s: %s", s.ID(), overlay.ErrUnsynced)
	}
	s, changes, err := listChanges(s)
	if err != nil {
		status = console.Fail(err) // the rest is still shown
	}
	defer s.Close()
	if len(paths) > 0 {
		if changes, err = s.Choose(changes, paths); err != nil {
			return console.Fail(err)
		}
	}
	out := console.OpenOutput()
	o := diff.Options{Colour: colour, Escape: terminal, Several: len(s.Roots()) > 1}
	var list []overlay.Rename
	if !f.patch {
		if list, err = s.Renames(changes); err != nil {
			return console.Fail(err)
		}
		o.Renames = diff.IndexRenames(list)
	}
	switch {
	case f.patch:
		err = diff.WritePatch(out.Shown(), s, changes)
	case f.nameStatus:
		diff.WriteNameStatus(out.Writer, changes, list, o)
	case f.stat:
		err = diff.WriteStat(out.Writer, s, changes, list, o)
	default:
		for _, c := range changes {
			if o.Renames.Inside(c) {
				continue
			}
			if err := diff.Write(out, s, c, o); err != nil {
				if out.Flush() != nil {
					break
				}
				if err = console.Unwanted(err); err == nil {
					break
				}
				status = console.Fail(err)
			}
		}
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err = console.Unwanted(err); err != nil {
		return console.Fail(err)
	}
	return status
}

// listChanges lists the changes of a session, with an error those that can be listed. It locks the session, and then
// returns another one, only if files have to be made readable.
func listChanges(s *overlay.Session) (*overlay.Session, []overlay.Change, error) {
	changes, err := collect(s)
	closed := func(c overlay.Change) bool {
		return c.Kind != overlay.Deleted && c.Mode.IsRegular() && c.Mode.Perm()&0o400 == 0
	}
	if os.Geteuid() != 0 && (errors.Is(err, fs.ErrPermission) || slices.ContainsFunc(changes, closed)) {
		if locked, lerr := overlay.Open("", s.ID()); lerr == nil {
			_ = s.Close()
			s = locked
			changes, err = collect(s)
		}
	}
	return s, changes, err
}

func collect(s *overlay.Session) (changes []overlay.Change, err error) {
	for c, cerr := range s.Changes() {
		if cerr != nil {
			err = errors.Join(err, cerr)
			continue
		}
		changes = append(changes, c)
	}
	return changes, err
}
