//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
)

var showVerb = usage.Verb{
	Name: "show", Args: "[--json] [SESSION]",
	Short: "show what a session changed",
	Long: `SESSION is an id that nsrun ls lists, the beginning of one, or last (also the default):
the newest session of the current project. A means added, M modified, D deleted, T
another type of file, R moved. Parentheses say what was modified besides the contents, and
whether a file is special (setuid, a device). docs/json.md of the source tree lists the
keys of JSON.`,
	Flags: func(fs *flag.FlagSet) { jsonFlag(fs, new(bool)) },
}

// shownSession is what `show --json` prints. The keys are stable.
type shownSession struct {
	sessionReport
	Changes []jsonform.Change `json:"changes"`
	Renames []renameReport    `json:"renames"`
}

// renameReport is a deletion and an addition that look like a rename.
type renameReport struct {
	Root       string `json:"root"`
	From       string `json:"from"`
	To         string `json:"to"`
	Directory  bool   `json:"directory"`
	Similarity int    `json:"similarity"` // percent
}

func renameReports(moved []overlay.Rename) []renameReport {
	list := make([]renameReport, len(moved))
	for i, m := range moved {
		list[i] = renameReport{m.Root, m.From, m.To, m.Directory, m.Similarity}
	}
	return list
}

func cmdShow(args []string) int {
	var asJSON bool
	rest, status, ok := showVerb.Parse(args, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) })
	if !ok {
		return status
	}
	id, rest, err := sessionArg(rest)
	if len(rest) > 0 {
		return console.Fail(usage.Errorf("show", "takes one session"))
	}
	if err != nil {
		return console.Fail(err)
	}
	finishInterrupted()
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return console.Fail(err)
	}
	in := s.Info() // before it is locked
	var changes []overlay.Change
	if s.State() == overlay.Kept {
		if s, changes, err = listChanges(s); err != nil {
			status = console.Fail(err) // the rest is still shown
		}
	}
	defer s.Close()
	var moved []overlay.Rename
	if s.State() == overlay.Committed {
		changes, err = s.Committed()
	} else {
		moved, err = s.Renames(changes)
	}
	if err != nil {
		status = console.Fail(err)
	}
	r := describe(in)
	if n, err := in.Usage(context.Background()); err == nil {
		r.Size = &n
	}
	later := 0
	for _, c := range changes {
		if c.Runs != "" && c.Runs != overlay.Protected && s.State() == overlay.Kept {
			later++
		}
	}
	r.Later = &later
	if asJSON {
		return max(status, console.PrintJSON(shownSession{r, jsonform.Changes(changes), renameReports(moved)}))
	}
	out := console.OpenOutput()
	fmt.Fprintf(out, "session  %s\nstate    %s\nbegan    %s (%s)\nsize     %s\n",
		r.ID, r.state(), r.Created.Local().Format("2006-01-02 15:04:05"), console.Ago(r.Created), r.size())
	fmt.Fprintf(out, "engine   %s\n", r.Engine)
	if r.On != "" {
		fmt.Fprintf(out, "on       %s\n", r.On)
	}
	for _, root := range r.Roots {
		fmt.Fprintf(out, "root     %s\n", escape.Quote(root))
	}
	fmt.Fprintf(out, "command  %s\n", escape.Command(r.Command))
	if len(changes) > 0 {
		fmt.Fprintln(out)
		diff.Print(out, "", changes, moved, len(in.Roots) > 1)
	}
	if err := out.Close(); err != nil {
		return console.Fail(err)
	}
	return status
}
