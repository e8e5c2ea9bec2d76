//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/overlay"
)

// report is what --report writes. The keys are stable.
type report struct {
	Session    string         `json:"session"`
	Command    []string       `json:"command"`
	ExitCode   int            `json:"exit_code"`
	Signal     string         `json:"signal"`
	TimedOut   bool           `json:"timed_out"`
	DurationMS int64          `json:"duration_ms"`
	Backend    string         `json:"backend"`
	Missing    []string       `json:"missing"`
	Network    network        `json:"network"`
	Changes    []changeReport `json:"changes"`
	Held       []heldReport   `json:"held"` // changes that were not committed with the others
	Denied     []deniedReport `json:"denied"`
	State      string         `json:"state"`
	Engine     string         `json:"engine"`  // how the changes were kept apart; empty: --direct
	Backups    []backupReport `json:"backups"` // that hold what was there before
	Output     outputReport   `json:"output"`
}

type network struct {
	Mode      string               `json:"mode"`
	Decisions []netpolicy.Decision `json:"decisions"`
	Omitted   int                  `json:"omitted,omitempty"` // decisions that are not listed
	Rules     []string             `json:"rules,omitempty"`   // --learn-net
	Refused   int                  `json:"refused,omitempty"` // without a network
}

// deniedReport is something that the command was refused.
type deniedReport struct {
	Op        string `json:"op"`
	Path      string `json:"path"`
	Why       string `json:"why"`
	AllowWith string `json:"allow_with"`
}

type outputReport struct {
	Truncated bool `json:"truncated"`
}

// changeReport is one change.
type changeReport = jsonform.Change

func changeReports(changes []overlay.Change) []changeReport { return jsonform.Changes(changes) }

type heldReport = jsonform.Held

func octal(m os.FileMode) string { return jsonform.Octal(m) }

// openReport opens what --report names, so that a name that is none costs no run.
// It comes before anything else is opened.
func (r *runner) openReport() (err error) {
	name := r.o.report
	fd, numErr := strconv.ParseUint(name, 10, 31)
	switch {
	case name == "":
	case name == "-":
		r.report = os.Stdout
	case numErr == nil:
		// The caller's have survived an exec; what would not is one of ours.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return &usageError{"run", "--report " + name + ": this descriptor is not open"}
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
			return &usageError{"run", "--report " + name + ": this descriptor cannot be written to"}
		}
		r.report = os.NewFile(uintptr(fd), "report descriptor "+name)
	default:
		if err := r.reportPlace(name); err != nil {
			return err
		}
		r.report, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	return err
}

// reportPlace refuses a report that the command could write itself.
func (r *runner) reportPlace(name string) error {
	dir, err := realPath(filepath.Dir(name))
	if err != nil {
		return nil // which opening it will say
	}
	for _, p := range r.o.paths {
		if real, err := realPath(p.pattern); p.kind == "rw" && err == nil && inside(dir, real) {
			return &usageError{"run", "--report " + quote(name) + ": --rw lets the command write there"}
		}
	}
	if !r.o.direct {
		return nil
	}
	roots := r.o.projects
	if len(roots) == 0 {
		roots = []string{nsrunlib.FindProject(r.dir())}
	}
	for _, root := range roots {
		if real, err := realPath(root); err == nil && inside(dir, real) {
			return &usageError{"run", "--report " + quote(name) + ": --direct lets the command write there"}
		}
	}
	return nil
}

// dir is where the project is looked for.
func (r *runner) dir() string {
	if r.o.dir != "" && r.o.dir != playground {
		if dir, err := workingDir(r.o.dir); err == nil {
			return dir
		}
	}
	wd, _ := os.Getwd()
	return wd
}

func (r *runner) writeReport(status int) error {
	if r.report == nil {
		return nil
	}
	rep := report{
		Command: r.o.command, ExitCode: status, TimedOut: r.timedOut,
		DurationMS: time.Since(r.began).Milliseconds(), Backend: "native", Missing: []string{},
		Network: network{r.network.Mode, append([]netpolicy.Decision{}, r.network.Decisions...), r.network.Omitted, r.network.Rules, r.network.Refused},
		Changes: changeReports(r.changes), Held: jsonform.HeldBack(r.held), Denied: []deniedReport{}, State: r.state, Engine: r.engine, Signal: r.signal, Backups: append([]backupReport{}, r.backups...),
	}
	if rep.Network.Mode == "" { // the command was not run
		rep.Network.Mode = r.o.net
	}
	for _, d := range r.network.Denied() {
		op, why := "connect", "no rule allows it"
		switch {
		case d.Server:
			op, why = "bind", "the port is not published"
		case d.Group:
			op, why = "join", "the host would tell its network of it"
		case d.Proto == netpolicy.UDP.String():
			op = "send"
		case d.Address == "":
			op = "resolve"
		}
		rep.Denied = append(rep.Denied, deniedReport{op, nsrunlib.TargetText(d), why, d.AllowWith})
	}
	if r.session != nil && !r.dropped {
		rep.Session = r.session.ID()
	}
	b, err := marshal(rep)
	if err != nil {
		return err
	}
	_, err = r.report.Write(b)
	return err
}
