package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nsrun/nsrun/overlay"
)

// The verbs that work on sessions. A session is named by its id, the beginning of
// it, or "last", which is also meant where none is named.

// parseVerb parses the flags of a verb; ok is false if that was all.
func parseVerb(name string, args []string, define func(*flag.FlagSet)) (rest []string, status int, ok bool) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if define != nil {
		define(fs)
	}
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, help([]string{name}), false
	}
	if err != nil {
		return nil, fail(&usageError{name, flagText(err)}), false
	}
	return fs.Args(), 0, true
}

func printJSON(v any) int {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = os.Stdout.Write(append(b, '\n'))
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// sessionReport is a session in `ls --json` and `show --json`. The keys are
// stable.
type sessionReport struct {
	ID      string         `json:"session"`
	State   overlay.State  `json:"state"`
	Created time.Time      `json:"created"`
	Command []string       `json:"command"`
	Roots   []string       `json:"roots"`
	Busy    bool           `json:"busy"`
	Changes []changeReport `json:"changes,omitempty"`
}

func describe(in overlay.Info) sessionReport {
	r := sessionReport{ID: in.ID, State: in.State, Created: in.Created, Command: in.Command, Roots: []string{}, Busy: in.Busy}
	if r.Command == nil {
		r.Command = []string{}
	}
	for _, root := range in.Roots {
		r.Roots = append(r.Roots, root.Path)
	}
	return r
}

// state is what people are told: whoever holds a session open runs a command in it,
// or decides about it.
func (r sessionReport) state() string {
	if r.Busy {
		return "running"
	}
	return r.State.String()
}

func ls(args []string) int {
	var asJSON bool
	rest, status, ok := parseVerb("ls", args, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) })
	if !ok {
		return status
	}
	if len(rest) > 0 {
		return fail(&usageError{"ls", "takes no arguments"})
	}
	list := []sessionReport{}
	for in, err := range overlay.List("") {
		if err != nil {
			status = fail(err)
			continue
		}
		list = append(list, describe(in))
	}
	if asJSON {
		return max(status, printJSON(list))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, s := range list {
		roots := make([]string, len(s.Roots))
		for i, r := range s.Roots {
			roots[i] = quote(r)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.ID, s.state(), age(s.Created), strings.Join(roots, " "), quoteCommand(s.Command))
	}
	if err := w.Flush(); err != nil {
		return fail(err)
	}
	return status
}

// age is how long ago t was, roughly.
func age(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// sessionArg splits off the session that the first argument names, if it names
// one.
func sessionArg(args []string) (id string, rest []string) {
	if len(args) == 0 {
		return "last", nil
	}
	return args[0], args[1:]
}

func show(args []string) int {
	var asJSON bool
	rest, status, ok := parseVerb("show", args, func(fs *flag.FlagSet) { jsonFlag(fs, &asJSON) })
	if !ok {
		return status
	}
	id, rest := sessionArg(rest)
	if len(rest) > 0 {
		return fail(&usageError{"show", "takes one session"})
	}
	s, err := overlay.OpenReadOnly("", id)
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	var changes []overlay.Change
	if s.State() == overlay.Kept {
		for c, err := range s.Changes() {
			if err != nil {
				return fail(err)
			}
			changes = append(changes, c)
		}
	}
	if asJSON {
		r := describe(s.Info())
		r.Changes = changeReports(changes)
		return printJSON(r)
	}
	in := s.Info()
	fmt.Printf("%s  %s  %s\n", in.ID, describe(in).state(), quoteCommand(in.Command))
	printChanges(os.Stdout, "", changes, len(in.Roots) > 1)
	return 0
}

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
