//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay"
)

var lsVerb = usage.Verb{
	Name: "ls", Args: "[--all] [--json] [--size] [-q]",
	Short: "list sessions",
	Long: `Lists the sessions of the current project, or with --all of all projects, one per line,
newest first: id, state, age, size on disk, project, command. A size that takes long to
measure is shown as - unless --size is given. The states are running, kept, committed,
discarded, and interrupted, if an interrupted operation could be neither finished nor
rolled back: nsrun doctor says why. After kept comes the number of changes that would run
later (hooks, editor settings). JSON contains the sessions of all projects, oldest first.
docs/json.md of the source tree lists its keys.`,
	Flags: func(fs *flag.FlagSet) { lsFlags(fs, &lsOptions{}) },
}

// sizesMost limits how long ls measures sessions if nobody asked for sizes.
const sizesMost = 200 * time.Millisecond

type lsOptions struct{ json, size, quiet, all bool }

func lsFlags(fs *flag.FlagSet, o *lsOptions) {
	jsonFlag(fs, &o.json)
	fs.BoolVar(&o.size, "size", false, "measure all sessions, even if it takes long")
	fs.BoolVar(&o.all, "all", false, "list the sessions of all projects")
	fs.BoolVar(&o.quiet, "q", false, "print ids only")
}

func cmdLs(args []string) int {
	var o lsOptions
	rest, status, ok := lsVerb.Parse(args, func(fs *flag.FlagSet) { lsFlags(fs, &o) })
	if !ok {
		return status
	}
	if len(rest) > 0 {
		return console.Fail(usage.Errorf("ls", "takes no arguments"))
	}
	if o.quiet && (o.json || o.size) {
		return console.Fail(usage.Errorf("ls", "-q excludes --json and --size"))
	}
	finishInterrupted()
	var infos []overlay.Info
	others := 0
	wd, err := here()
	if err != nil && !o.all && !o.json {
		return console.Fail(err)
	}
	for in, err := range overlay.List("") {
		switch {
		case err != nil:
			status = console.Fail(err)
		case o.all || o.json || isHere(in, wd):
			infos = append(infos, in)
		default:
			others++
		}
	}
	list := make([]sessionReport, len(infos))
	for i, in := range infos {
		list[i] = describe(in)
	}
	if !o.quiet {
		measure(infos, list, o.size)
	}
	if o.json {
		return max(status, console.PrintJSON(list))
	}
	if len(list) == 0 && others > 0 && !o.quiet {
		console.Say("no session of this project, and %d of others (try: nsrun ls --all)", others)
	}
	slices.Reverse(list)
	out := bufio.NewWriter(os.Stdout)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range list {
		if o.quiet {
			fmt.Fprintln(out, s.ID)
			continue
		}
		roots := make([]string, len(s.Roots))
		for i, r := range s.Roots {
			roots[i] = escape.Quote(r)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.state(), console.Age(s.Created), s.size(), strings.Join(roots, " "), escape.Command(s.Command))
	}
	if err := errors.Join(w.Flush(), out.Flush()); err != nil {
		return console.Fail(err)
	}
	return status
}

// measure fills in the sizes, and how many changes run later, of the newest sessions first, which are the last ones: of
// all, or of as many as the time allows.
func measure(infos []overlay.Info, list []sessionReport, all bool) {
	ctx := context.Background()
	if !all {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sizesMost)
		defer cancel()
	}
	for i := range slices.Backward(infos) {
		if n, err := infos[i].Usage(ctx); err == nil {
			list[i].Size = &n
		}
		if n, ok := runLater(ctx, infos[i]); ok {
			list[i].Later = &n
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// runLater counts the changes of a session that would run later; ok is false if that is not known, or not in time.
func runLater(ctx context.Context, in overlay.Info) (n int, ok bool) {
	switch {
	case in.Busy, in.Interrupted:
		return 0, false
	case in.State != overlay.Kept:
		return 0, true
	}
	s, err := overlay.OpenReadOnly("", in.ID)
	if err != nil {
		return 0, false
	}
	defer s.Close()
	for c, err := range s.Changes() {
		if err != nil || ctx.Err() != nil {
			return 0, false
		}
		if c.Runs != "" && c.Runs != overlay.Protected {
			n++
		}
	}
	return n, true
}
