//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/internal/escape"
)

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

// watch prints what a command of `run` changes, as far as that is noticed.
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
