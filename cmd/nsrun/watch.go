//go:build linux

package main

import (
	"bufio"
	"errors"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/fanotify"
)

var watchVerb = usage.Verb{
	Name: "watch", Args: "[flags] DIR…",
	Short: "print changes in directories as they happen",
	Long: `One line is printed for each thing that happens at any depth below the
directories: created, written, removed, renamed (the old and the new path) or
attributes. Paths are relative to the directory, which comes first where there
are several; a slash follows directories. It goes on until Ctrl-C, or until the
directories are gone: what has happened by then is printed, and the status is 0
after Ctrl-C. Symbolic links and other mounted file systems are not followed.

fanotify watches whole file systems, and takes root. inotify holds every
directory open (see ulimit -n, and /proc/sys/fs/inotify/max_user_watches).
Where events were lost, that is said, and what changed meanwhile is looked for.
The keys of JSON are listed in docs/json.md of the source tree.`,
	Flags: func(fs *flag.FlagSet) { watchFlags(fs, &watchOptions{}) },
}

type watchOptions struct {
	json, quiet bool
	engine      fanotify.Engine
}

func watchFlags(fs *flag.FlagSet, o *watchOptions) {
	fs.BoolVar(&o.json, "json", false, "print each event as a line of JSON")
	fs.Func("engine", "how: `auto|fanotify|inotify`", func(s string) error { return o.engine.UnmarshalText([]byte(s)) })
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
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	w, err := fanotify.New(fanotify.Options{Roots: dirs, Engine: o.engine})
	if err != nil {
		return console.Fail(err)
	}
	// It is not closed: the kernel takes some milliseconds for that, at the latest now.
	go func() {
		<-stop
		signal.Stop(stop) // the second one ends it at once
		w.Stop()
	}()
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
		// Whoever reads is to see it while it happens.
		if err := out.Flush(); err != nil {
			return console.Fail(err)
		}
	}
	return status
}
