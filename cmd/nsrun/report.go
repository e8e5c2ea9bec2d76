//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/pathrule"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/netpolicy"
)

// report is what --report writes. The keys are stable.
type report struct {
	Session     string                `json:"session"`
	Command     []string              `json:"command"`
	ExitCode    int                   `json:"exit_code"`
	Signal      string                `json:"signal"`
	TimedOut    bool                  `json:"timed_out"`
	DurationMS  int64                 `json:"duration_ms"`
	Backend     string                `json:"backend"`
	Unsandboxed string                `json:"unsandboxed"` // why it ran without a sandbox; empty: it had one
	Limits      []nsrunlib.Limit      `json:"limits"`
	Services    []nsrunlib.ServiceUse `json:"services"` // what the command used, or wanted to use, of services
	Missing     []features.Name       `json:"missing"`
	Network     network               `json:"network"`
	Changes     []jsonform.Change     `json:"changes"`
	Held        []jsonform.Held       `json:"held"` // changes that were not committed with the others
	Denied      []nsrunlib.Refusal    `json:"denied"`
	State       string                `json:"state"`
	Engine      string                `json:"engine"`  // how the changes were kept apart; empty: --direct
	Backups     []backupReport        `json:"backups"` // that hold what was there before
	Output      outputReport          `json:"output"`
}

type network struct {
	Mode      string               `json:"mode"`
	Decisions []netpolicy.Decision `json:"decisions"`
	Omitted   int                  `json:"omitted,omitempty"` // decisions that are not listed
	Rules     []string             `json:"rules,omitempty"`   // --learn-net
	Refused   int                  `json:"refused,omitempty"` // without a network
}

type outputReport struct {
	Truncated bool `json:"truncated"`
}

// openReport opens the file of --report before the command runs, so that a wrong name is found first. It runs before
// any other file is opened.
func (r *runner) openReport() (err error) {
	name := r.o.report
	fd, numErr := strconv.ParseUint(name, 10, 31)
	switch {
	case name == "":
	case name == "-":
		r.report = os.Stdout
	case numErr == nil:
		// The caller's descriptors have survived an exec; one that would not is ours.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return usage.Errorf("run", "--report %s: this descriptor is not open", name)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
			return usage.Errorf("run", "--report %s: this descriptor cannot be written to", name)
		}
		r.report = os.NewFile(uintptr(fd), "report descriptor "+name)
	default:
		r.report, err = r.reportFile(name)
	}
	return err
}

// reportFile opens or creates a regular file. It refuses a link that a command has put there. Files in /dev and /proc
// (/dev/stderr, /dev/fd/5) are not a command's, and may be anything.
func (r *runner) reportFile(name string) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, usage.Errorf("run", "--report %s: %s", escape.Quote(name), err)
	}
	path, err := fromHere(name)
	if err != nil {
		return fail(err)
	}
	real, err := trusted(path)
	if errors.Is(err, unix.ENOENT) { // of a new file the directory is there, and no link to nothing
		var dir string
		if dir, err = trusted(filepath.Dir(path)); err == nil {
			real = filepath.Join(dir, filepath.Base(path))
		}
	}
	if paths.Inside(path, "/dev") || paths.Inside(path, "/proc") {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	if err != nil {
		return fail(err)
	}
	if err := r.reportPlace(name, real); err != nil {
		return nil, err
	}
	fd, err := sys.Openat2(unix.AT_FDCWD, real,
		unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0o666, unix.RESOLVE_NO_SYMLINKS)
	switch err {
	case nil:
	case unix.ELOOP:
		return fail(errors.New("it is a symbolic link"))
	case unix.ENXIO: // a FIFO that nobody reads, or a socket
		return fail(errNoFile)
	default:
		return fail(err)
	}
	f := os.NewFile(uintptr(fd), name)
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errNoFile
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return fail(err)
	}
	return f, nil
}

var errNoFile = errors.New("not a regular file")

// reportPlace refuses a report file that the command could write to.
func (r *runner) reportPlace(name, real string) error {
	for _, p := range r.o.paths {
		for _, path := range host.Meant(pathrule.Anchor(physical("/"), p.Pattern)) {
			if at, err := realPath(path); p.Kind == "rw" && err == nil && paths.Inside(real, at) {
				return usage.Errorf("run", "--report %s: --rw lets the command write there", escape.Quote(name))
			}
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
		if at, err := realPath(root); err == nil && paths.Inside(real, at) {
			return usage.Errorf("run", "--report %s: --direct lets the command write there", escape.Quote(name))
		}
	}
	return nil
}

// dir is the directory in which the project is looked for.
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
		DurationMS: r.took.Milliseconds(), Missing: append([]features.Name{}, r.missing...), Limits: append([]nsrunlib.Limit{}, r.limits...),
		Network:  network{r.network.Mode, append([]netpolicy.Decision{}, r.network.Decisions...), r.network.Omitted, r.network.Rules, r.network.Refused},
		Services: append([]nsrunlib.ServiceUse{}, r.services...),
		Changes:  jsonform.Changes(r.changes), Held: jsonform.HeldBack(r.held), Denied: append([]nsrunlib.Refusal{}, r.refusals...), State: r.state, Engine: r.engine, Signal: r.signal, Backups: append([]backupReport{}, r.backups...),
	}
	if r.execution != nil { // it was executed
		if rep.Backend = r.backend.String(); r.unsandboxed != "" {
			rep.Backend, rep.Unsandboxed = features.Unsandboxed, r.unsandboxed
		}
	}
	if rep.Network.Mode == "" { // the command was not run
		rep.Network.Mode = r.o.net
	}
	if r.session != nil && !r.dropped {
		rep.Session = r.session.ID()
	}
	b, err := console.JSON(rep)
	if err != nil {
		return err
	}
	_, err = r.report.Write(b)
	return err
}
