//go:build linux

package main

import (
	"bufio"
	"errors"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/internal/stuck"
)

var watchVerb = usage.Verb{
	Name: "watch", Args: "[flags] DIR…",
	Short: "print changes in directories as they happen",
	Long: `Prints one line for each change at any depth below the directories: created, written,
removed, renamed (with the old and the new path) or attributes. Paths are relative to the
directory, whose name comes first if there are several. A slash follows the names of
directories. It does not follow symbolic links, nor enter other mounted file systems.

On Ctrl-C, or when the directories are gone, it prints the remaining changes and exits
with status 0.

The fanotify engine watches whole file systems, and needs root. The inotify engine keeps
every directory open; its limits are ulimit -n and /proc/sys/fs/inotify/max_user_watches.
If the kernel drops events, nsrun says so, and searches the directories for what changed
meanwhile. docs/json.md of the source tree lists the keys of JSON.`,
	Examples: `nsrun watch src`,
	Flags:    func(fs *flag.FlagSet) { watchFlags(fs, &watchOptions{}) },
}

type watchOptions struct {
	json, quiet bool
	engine      fanotify.Engine
}

func watchFlags(fs *flag.FlagSet, o *watchOptions) {
	fs.BoolVar(&o.json, "json", false, "print each event as a line of JSON")
	fs.Func("engine", "watch with `auto|fanotify|inotify`", func(s string) error { return o.engine.UnmarshalText([]byte(s)) })
	fs.BoolVar(&o.quiet, "q", false, "do not print when watching starts")
}

func cmdWatch(args []string) int {
	var o watchOptions
	dirs, status, ok := watchVerb.Parse(args, func(fs *flag.FlagSet) { watchFlags(fs, &o) })
	if !ok {
		return status
	}
	if len(dirs) == 0 {
		return console.Fail(usage.Errorf("watch", "takes a directory"))
	}
	finishRestorations()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var w *fanotify.Watcher
	opened := make(chan struct{})
	go func() {
		s := <-stop
		signal.Stop(stop) // the second one ends it at once
		before := stuck.Now()
		select {
		case <-opened:
			w.Stop()
		case <-time.After(console.Patience):
			waits, _ := console.Waits(before)
			console.Say("%sstopped before the watch began", waits)
			console.EndBy(s.(syscall.Signal))
		}
	}()
	// It is not closed: the kernel takes some milliseconds for that, at the end of the process at the latest.
	var err error
	if w, err = fanotify.New(fanotify.Options{Roots: dirs, Engine: o.engine}); err != nil {
		return console.Fail(err)
	}
	close(opened)
	if !o.quiet {
		for _, dir := range dirs {
			console.Say("watching %s (%s)", dir, w.Engine())
		}
	}
	out := bufio.NewWriter(os.Stdout)
	for ev, err := range w.Events() {
		switch {
		case errors.Is(err, fanotify.ErrOverflow):
			console.Say("%s", err)
			continue
		case err != nil:
			status = console.Fail(err)
			continue
		}
		if err := printEvent(out, &ev, o.json, len(dirs) > 1); err != nil {
			return console.Fail(err)
		}
		// Flush each event, so that readers see it at once.
		if err := out.Flush(); err != nil {
			return console.Fail(err)
		}
	}
	return status
}
