package main

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

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
	Denied     []struct{}     `json:"denied"`
	State      string         `json:"state"`
	Engine     string         `json:"engine"` // how the changes were kept apart; empty: --direct
	Backups    []struct{}     `json:"backups"`
	Output     outputReport   `json:"output"`
}

type network struct {
	Mode      string     `json:"mode"`
	Decisions []struct{} `json:"decisions"`
}

type outputReport struct {
	Truncated bool `json:"truncated"`
}

// changeReport is one change. Keys without a value are left out from aspects on.
type changeReport struct {
	Kind    overlay.Kind `json:"kind"`
	Root    string       `json:"root"`
	Path    string       `json:"path"`
	Mode    string       `json:"mode"` // octal, as stat(1) has it
	Size    int64        `json:"size"`
	Aspects []string     `json:"aspects,omitempty"` // of what was modified: content, mode, owner, attributes
	Below   int          `json:"below,omitempty"`   // how many objects were deleted with this directory
	Special string       `json:"special,omitempty"` // why it is not committed without --allow-special
}

func changeReports(changes []overlay.Change) []changeReport {
	list := make([]changeReport, len(changes))
	for i, c := range changes {
		list[i] = changeReport{c.Kind, c.Root, c.Path, octal(c.Mode), c.Size, aspects(c), c.Below, c.Special}
	}
	return list
}

// octal is a mode as chmod(1) takes it.
func octal(m os.FileMode) string {
	bits := uint64(m.Perm())
	for _, b := range [...]struct {
		mode os.FileMode
		bit  uint64
	}{{os.ModeSetuid, 0o4000}, {os.ModeSetgid, 0o2000}, {os.ModeSticky, 0o1000}} {
		if m&b.mode != 0 {
			bits |= b.bit
		}
	}
	return "0" + strconv.FormatUint(bits, 8)
}

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
		roots = []string{workTree(r.dir())}
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
	if r.o.dir != "" {
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
		Network: network{Mode: r.o.net, Decisions: []struct{}{}},
		Changes: changeReports(r.changes), Denied: []struct{}{}, State: r.state, Backups: []struct{}{},
	}
	if r.session != nil {
		rep.Engine = r.session.Info().Engine.String()
	}
	if r.session != nil && !r.dropped {
		rep.Session = r.session.ID()
	}
	if r.signal != nil {
		if s, ok := r.signal.(unix.Signal); ok {
			rep.Signal = unix.SignalName(s)
		}
	}
	b, err := marshal(rep)
	if err != nil {
		return err
	}
	_, err = r.report.Write(b)
	return err
}
