//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/fanotify"
)

var watchVerb = usage.Verb{
	Name: "watch", Args: "[flags] DIR…",
	Short: "print what changes in directories, while it does",
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
	fs.BoolVar(&o.json, "json", false, "print a line of JSON for each")
	fs.Func("engine", "how: `auto|fanotify|inotify`", func(s string) error { return o.engine.UnmarshalText([]byte(s)) })
	fs.BoolVar(&o.quiet, "q", false, "do not say when it begins")
}

// watchedEvent is a line of `watch --json`. The keys are stable.
type watchedEvent struct {
	Time      time.Time `json:"time"`
	Op        string    `json:"op"`
	Root      string    `json:"root"`
	Path      string    `json:"path"`
	From      string    `json:"from"`
	Directory bool      `json:"directory"`
	PID       int       `json:"pid"`
}

func watch(args []string) int {
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

// watch prints what a command of `run` changes, as far as that is seen.
func (r *runner) watch(events iter.Seq2[fanotify.Event, error]) {
	defer close(r.watched)
	several := len(r.o.projects) > 1 || r.o.session+r.o.on != ""
	for ev, err := range events {
		if err != nil {
			console.Say("live changes: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		var line strings.Builder
		_ = printEvent(&line, &ev, false, several)
		text := strings.TrimSuffix(line.String(), "\n")
		if reason := r.execution.RunsLater(ev); reason != "" {
			text += " (runs later: " + reason + ")"
		}
		console.Say("%s", text)
	}
}

func printEvent(out io.Writer, ev *fanotify.Event, asJSON, several bool) error {
	if asJSON {
		b, err := json.Marshal(watchedEvent{ev.Time, ev.Op.String(), ev.Root, ev.Path, ev.From, ev.Dir, ev.PID})
		if err != nil {
			return err
		}
		_, err = out.Write(append(console.EscapeJSON(b), '\n'))
		return err
	}
	slash := ""
	if ev.Dir {
		slash = "/"
	}
	where := ""
	if several {
		where = escape.Quote(ev.Root) + ": "
	}
	var err error
	if ev.Op == fanotify.Renamed {
		_, err = fmt.Fprintf(out, "%-10s %s%s → %s\n", ev.Op, where, escape.Quote(ev.From+slash), escape.Quote(ev.Path+slash))
	} else {
		_, err = fmt.Fprintf(out, "%-10s %s%s\n", ev.Op, where, escape.Quote(ev.Path+slash))
	}
	return err
}
