//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/config"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

var gcVerb = usage.Verb{
	Name: "gc", Args: "[flags] [SESSION…]",
	Short: "remove old sessions and backups",
	Long: `Removes sessions that were committed or discarded at least seven days ago (they cannot be
undone then), and files that killed processes left behind. It removes kept sessions only
if they are named, or with --kept and --older. It never removes sessions in use, sessions
that other sessions build on, or sessions of other users. Without names it also removes
backups and versions of files older than seven days, log entries older than 90 days, and
home layers (nsrun home) that no command has used for 30 days. nsrun does all this by
itself once a day, after a commit or a discard. Configuration files can set how long
sessions, backups and the log stay ([retention]).

With --playground it empties playgrounds instead: it removes what commands left in
$HOME/playground. Each project has its own, a directory in
$XDG_DATA_HOME/nsrun/playgrounds; commands without a project share
$XDG_DATA_HOME/nsrun/playground. It prints the size of each, and removes everything after
a yes on a terminal, or with --yes. It removes symbolic links, and never follows them.`,
	Examples: `nsrun gc --kept --older 30d`,
	Flags:    func(fs *flag.FlagSet) { gcFlags(fs, &gcOptions{}) },
}

type gcOptions struct {
	older               time.Duration
	olderSet            bool
	kept, keepCommitted bool
	dryRun, quiet       bool
	playground, yes     bool
}

func gcFlags(fs *flag.FlagSet, o *gcOptions) {
	fs.Func("older", "remove sessions that ended, or with --kept were last used, this `duration` ago: 30d, 12h, 0", func(s string) (err error) {
		o.older, err = config.Days(s)
		o.olderSet = true
		return err
	})
	fs.BoolVar(&o.kept, "kept", false, "also remove kept sessions; their changes are lost")
	fs.BoolVar(&o.keepCommitted, "keep-committed", false, "do not remove sessions whose commit can be undone")
	fs.BoolVar(&o.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	fs.BoolVar(&o.playground, "playground", false, "empty all playgrounds")
	fs.BoolVar(&o.yes, "yes", false, "with --playground, do not ask")
	quietFlag(fs, &o.quiet)
}

func cmdGC(args []string) int {
	console.Unread()
	var o gcOptions
	rest, status, ok := gcVerb.Parse(args, func(fs *flag.FlagSet) { gcFlags(fs, &o) })
	if !ok {
		return status
	}
	switch {
	case o.yes && !o.playground:
		return console.Fail(usage.Errorf("gc", "--yes is for --playground"))
	case o.playground && (len(rest) > 0 || o.olderSet || o.kept || o.keepCommitted):
		return console.Fail(usage.Errorf("gc", "--playground is not about sessions"))
	case o.playground:
		return gcPlayground(o)
	case len(rest) > 0 && (o.olderSet || o.kept || o.keepCommitted):
		return console.Fail(usage.Errorf("gc", "named sessions are removed whatever their age and state"))
	case o.kept && !o.olderSet:
		return console.Fail(usage.Errorf("gc", "--kept needs --older: the changes of these sessions are lost"))
	}
	for i := range rest {
		var err error
		if rest[i], err = sessionNamed(rest[i]); err != nil {
			return console.Fail(err)
		}
	}
	ended, copies, err := record.Retention()
	if err != nil {
		return console.Fail(err)
	}
	c := overlay.CleanOptions{Sessions: rest, Ended: ended, KeepCommitted: o.keepCommitted, DryRun: o.dryRun}
	if o.olderSet {
		if c.Ended = o.older; c.Ended == 0 {
			c.Ended = -1
		}
		if o.kept {
			c.Kept = c.Ended
		}
	}
	finishInterrupted()
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	}
	var n int
	var size int64
	for found, err := range overlay.Clean("", c) {
		if err != nil {
			status = console.Fail(err)
			continue
		}
		n, size = n+1, size+found.Size
		if !o.quiet {
			console.Say("%s %s", verb, cleanedText(found))
		}
	}
	if n > 1 && !o.quiet {
		console.Say("%s %s in all", verb, console.Size(size))
	}
	if len(rest) == 0 {
		k, err := gcHomes(o, verb)
		if n += k; err != nil {
			status = console.Fail(err)
		}
	}
	if len(rest) == 0 && !o.dryRun {
		record.TellWith(copies, func(ctx context.Context, reg nsrunlib.Registry) error {
			c, err := reg.Registry.Clean(ctx)
			if text := cleanedCopies(c); text != "" && !o.quiet {
				n++
				console.Say("removed %s", text)
			}
			return err
		})
	}
	if n == 0 && status == 0 && !o.quiet {
		console.Say("nothing to remove")
	}
	return status
}

// gcHomes removes home layers that no command has used for a long time, and returns how many.
func gcHomes(o gcOptions, verb string) (n int, err error) {
	dir, err := host.HomeLayers()
	if err != nil {
		return 0, err
	}
	list, err := homelayer.Clean(dir, homelayer.Retention, o.dryRun)
	for _, in := range list {
		if n++; !o.quiet {
			console.Say("%s the home layer of %s: last used %s", verb, escape.Quote(in.Project), console.Ago(in.Used))
		}
	}
	return n, err
}

// gcPlayground prints the size of each playground, and removes its content.
func gcPlayground(o gcOptions) int {
	dirs, err := nsrunlib.Playgrounds()
	if err != nil {
		return console.Fail(err)
	}
	status := 0
	for _, dir := range dirs {
		status = max(status, gcOnePlayground(o, dir))
	}
	return status
}

func gcOnePlayground(o gcOptions, dir string) int {
	u, err := nsrunlib.MeasurePlayground(dir)
	if err != nil && !errors.Is(err, os.ErrPermission) { // closed directories are opened when they are removed
		return console.Fail(err)
	}
	if u.Files == 0 && u.Bytes == 0 && err == nil {
		return 0
	}
	text := func(u nsrunlib.PlaygroundUsage) string {
		return fmt.Sprintf("%s: %s, %s", escape.Quote(u.Dir), console.Plural(u.Files, "file"), console.Size(u.Bytes))
	}
	switch {
	case o.dryRun:
		console.Say("would remove what is in %s", text(u))
		return 0
	case o.yes:
	default:
		switch console.Ask("remove what is in " + text(u) + "? [y/N]") {
		case "y", "yes":
		default:
			console.Say("%s: not removed without a yes on a terminal (try: nsrun gc --playground --yes)", text(u))
			return console.ExitFailed
		}
	}
	if u, err = nsrunlib.CleanPlayground(dir); err != nil {
		return console.Fail(err)
	}
	if !o.quiet {
		console.Say("removed what was in %s", text(u))
	}
	return 0
}

// cleanedCopies says what the registry removed; empty: nothing.
func cleanedCopies(c project.Cleaned) string {
	var list []string
	if c.Backups > 0 {
		list = append(list, console.Plural(c.Backups, "old backup"))
	}
	if c.Befores > 0 {
		list = append(list, "file versions of "+console.Plural(c.Befores, "old execution"))
	}
	if c.Executions > 0 {
		list = append(list, "the log of "+console.Plural(c.Executions, "execution"))
	}
	return strings.Join(list, ", ")
}

// cleanedText says what was removed, and its size.
func cleanedText(c overlay.Cleaned) string {
	if c.ID == "" {
		return fmt.Sprintf("%s: left behind by a process that was killed, %s", filepath.Base(c.Dir), console.Size(c.Size))
	}
	state := c.State.String()
	if c.State == overlay.Kept {
		state = "last used"
	}
	return fmt.Sprintf("%s: %s %s, %s", c.ID, state, console.Ago(c.Last), console.Size(c.Size))
}
