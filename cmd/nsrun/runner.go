//go:build linux

package main

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// runner is one `nsrun run`.
type runner struct {
	o        *runOptions
	begun    bool              // what aheadOfFlags reported
	given    map[string]string // folders as they were typed, by absolute path
	without  map[string]bool   // places in configuration files that are left out
	checks   bool              // files are only checked: what nsrun config check has said is not said again
	signals  chan os.Signal
	notified chan struct{} // closed when signals arrive in signals
	limit    *startLimit
	early    func() []os.Signal // ends guardStart
	copies   atomic.Bool        // the project is copied
	stopped  os.Signal          // what stopped the start; nil: nothing did
	before   *console.Terminal  // the terminal's state before the command; nil: nothing is printed on it

	execution *nsrunlib.Execution // nil: the command was not started
	watched   chan struct{}       // closed when all events are printed; nil: without --watch
	session   *overlay.Session    // nil: there is none, or the command was not started
	lastRun   func() []*os.File   // waits for the files that note it; nil: the command was not started
	engine    string              // how changes were kept apart

	report      *os.File // nil: none
	dropped     bool     // the session is no more
	interrupted bool     // by Ctrl-C or Ctrl-\, instead of an answer, or while the project was copied or the changes were stored
	registry    *project.Registry
	changes     []overlay.Change
	held        []overlay.Change // that were not committed with the others
	backups     []backupReport
	network     nsrunlib.Network
	refusals    []nsrunlib.Refusal
	missing     []features.Name
	took        time.Duration // from the start of the command to its end
	refusal     refusal
	limits      []nsrunlib.Limit
	services    []nsrunlib.ServiceUse
	signal      string
	backend     nsrunlib.Backend
	unsandboxed string // why it ran without a sandbox; empty: it had one
	timedOut    bool
	state       string
	told        error // the error of nsrun's own that was printed, which is not printed again; nil: none
}

func (r *runner) close() {
	if err := r.registry.Close(); err != nil {
		console.Say("registry: %s", err)
	}
	if r.session == nil {
		return
	}
	if err := r.session.DropScratch(); err != nil && !errors.Is(err, os.ErrClosed) {
		console.Say("%s", err)
	}
	_ = r.session.Close()
}

type backupReport struct {
	Path   string `json:"path"`
	Backup string `json:"backup"`
}

// refusal is the first refused network access, once it was printed.
type refusal struct {
	told   bool
	target string // empty: there are no rules
}
