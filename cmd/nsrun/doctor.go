//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/escape"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

var doctorVerb = usage.Verb{
	Name: "doctor", Args: "[--sessions] [--json] [--fix [--print]]",
	Short: "check kernel support and the state of sessions",
	Long: `Tries each kernel feature that nsrun uses: it is there (yes), missing (no), or could not
be tested (unknown). For a missing one doctor prints why, what does not work without it,
and what to do. Then it prints the state of the sessions: how many there are, their size
on disk, which operations were interrupted and how that ended, which sessions are in use,
and which can be removed. The exit status is 1 if commands cannot run in a sandbox at all:
if a feature is missing for that, or if a command that does nothing could not be started.
With --fix, doctor shows what root would write and run on this host so that ordinary users
can use nsrun (limits of namespaces, a profile for AppArmor, the overlay module, cgroups),
and asks on the terminal before each step. With --print it only shows the steps.
docs/json.md of the source tree lists the keys of JSON.`,
	Flags: func(fs *flag.FlagSet) { doctorFlags(fs, &doctorOptions{}) },
}

type doctorOptions struct{ json, sessions, fix, print bool }

func doctorFlags(fs *flag.FlagSet, o *doctorOptions) {
	jsonFlag(fs, &o.json)
	fs.BoolVar(&o.sessions, "sessions", false, "check only the sessions")
	fs.BoolVar(&o.fix, "fix", false, "change this host, after a question for each step")
	fs.BoolVar(&o.print, "print", false, "with --fix: only show what would be done")
}

// cmdDoctor reports what this machine can do, and what to do about the rest. Its exit status is 1 if commands cannot
// run in a sandbox at all.
func cmdDoctor(args []string) int {
	var o doctorOptions
	rest, status, ok := doctorVerb.Parse(args, func(fs *flag.FlagSet) { doctorFlags(fs, &o) })
	if !ok {
		return status
	}
	if len(rest) > 0 {
		return console.Fail(usage.Errorf("doctor", "takes no arguments"))
	}
	switch {
	case o.print && !o.fix:
		return console.Fail(usage.Errorf("doctor", "--print goes with --fix"))
	case o.fix:
		return fixHost(o.print)
	}
	var out strings.Builder
	if !o.sessions {
		list := features.Probe()
		a := nsrunlib.Check()
		if a.Status == nsrunlib.NotSupported {
			status = 1
		}
		var failed error
		if status == 0 {
			failed = tryStart(leastFiles(a.Backend))
		}
		defer func() {
			if failed != nil {
				console.Fail(failed)
			}
		}()
		if failed != nil {
			status = 1
		}
		if o.json {
			return max(status, console.PrintJSON(list))
		}
		printFeatures(&out, list)
		printBackend(&out, a)
		out.WriteByte('\n')
	}
	r, err := examine()
	if err != nil {
		return max(status, console.PrintText(out.String()), console.Fail(err))
	}
	if o.json {
		return max(status, console.PrintJSON(r))
	}
	r.print(&out)
	return max(status, console.PrintText(out.String()))
}

// startPatience limits how long the command takes that tryStart starts.
const startPatience = 30 * time.Second

// leastFiles is how many descriptors are always enough for "nsrun run", with a session and a home layer: it depends on
// the order in which its parts are done. Root's run has more, mounts that show ids as others.
func leastFiles(b nsrunlib.Backend) uint64 {
	switch {
	case b == nsrunlib.LandlockBackend:
		return 36
	case unix.Geteuid() == 0:
		return 48
	}
	return 44
}

// tryStart starts a command that does nothing in a sandbox, as "nsrun run" does: what it needs is more than features,
// such as descriptors and a home directory that is known. A host without a shell has other commands.
func tryStart(leastFiles uint64) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < leastFiles {
		return fmt.Errorf("start a command: %w", unix.EMFILE)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	r := nsrunlib.NewRunner(nsrunlib.Config{Home: nsrunlib.HomeReadOnly, NoPlayground: true})
	defer r.Close()
	_, err := r.Run(ctx, nsrunlib.Request{Command: ":"})
	if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == nsexec.StepExec {
		return nil
	}
	return err
}

// printBackend says how commands run if there are no namespaces.
func printBackend(w io.Writer, a nsrunlib.Availability) {
	if a.Status == nsrunlib.Available && a.Backend == nsrunlib.LandlockBackend {
		fmt.Fprintf(w, "\nCommands run without namespaces (--backend landlock): files and processes are protected by Landlock.\n"+
			"For namespaces: %s\n", a.Remedy)
	}
}

// printFeatures prints a line for each feature, and the details of those that are missing.
func printFeatures(w io.Writer, list []features.Feature) {
	for _, f := range list {
		fmt.Fprintf(w, "%-8s %-24s %s\n", f.Status, f.Name, f.For)
		switch f.Status {
		case features.Yes:
			continue
		case features.Unknown: // nothing is known to be missing
			fmt.Fprintf(w, "%9s%s\n", "", f.Why)
			continue
		}
		for _, line := range [...]struct{ before, text string }{
			{"", f.Why}, {"without it: ", f.Lost}, {"", f.Takes()}, {"try: ", f.Remedy},
		} {
			if line.text != "" {
				fmt.Fprintf(w, "%9s%s%s\n", "", line.before, line.text)
			}
		}
	}
}

// stateReport is what `doctor --sessions --json` prints. The keys are stable.
type stateReport struct {
	Dir       string            `json:"dir"`
	Size      int64             `json:"size"`
	Complete  bool              `json:"complete"`
	Kept      int               `json:"kept"`
	Committed int               `json:"committed"`
	Discarded int               `json:"discarded"`
	Recovered []recoveredReport `json:"recovered"`
	Busy      []string          `json:"busy"`
	Removable []removableReport `json:"removable"`
	Damaged   []damagedReport   `json:"damaged"`
	Homes     homesReport       `json:"homes"`
}

// homesReport is about the home layers.
type homesReport struct {
	Count int   `json:"count"`
	Size  int64 `json:"size"`
}

// examineHomes measures the home layers, and omits those that it cannot read.
func examineHomes() (r homesReport) {
	dir, err := host.HomeLayers()
	if err != nil {
		return r
	}
	list, _ := homelayer.List(dir)
	for _, in := range list {
		r.Count, r.Size = r.Count+1, r.Size+in.Size()
	}
	return r
}

// recoveredReport is a session in which something was interrupted.
type recoveredReport struct {
	ID    string `json:"session"`
	What  string `json:"what"`  // what was done about it
	Error string `json:"error"` // empty: all is well again
}

type removableReport struct {
	Dir  string `json:"dir"`
	Size int64  `json:"size"`
}

type damagedReport struct {
	Dir string `json:"dir"`
	Why string `json:"why"`
}

// patientMost limits how long doctor measures.
const patientMost = 5 * time.Second

// writable returns the error that a command would get for the directory of sessions, or for the first one above it that
// exists. Nothing is made.
func writable(dir string) error {
	for {
		err := sys.Access(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK)
		if err == unix.ENOENT && dir != "/" {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return &overlay.Error{Op: "open state directory", Path: dir, Err: err}
		}
		return nil
	}
}

// examine looks at all sessions.
func examine() (stateReport, error) {
	r := stateReport{Complete: true, Recovered: []recoveredReport{}, Busy: []string{}, Removable: []removableReport{}, Damaged: []damagedReport{}}
	dir, err := overlay.DefaultDir()
	if err != nil {
		return r, err
	}
	r.Dir = dir
	if err := writable(dir); err != nil {
		return r, err
	}
	finishRestorations()
	for found, err := range overlay.Recover("") {
		if found.ID == "" {
			break // listing says why
		}
		rec := recoveredReport{ID: found.ID, What: found.What}
		if err != nil {
			rec.Error = err.Error()
		}
		r.Recovered = append(r.Recovered, rec)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patientMost)
	defer cancel()
	for in, err := range overlay.List("") {
		if err != nil && in.Dir == "" {
			return r, err
		}
		n, uerr := in.Usage(ctx)
		r.Size += n
		r.Complete = r.Complete && (uerr == nil || ctx.Err() == nil)
		if err != nil {
			r.Damaged = append(r.Damaged, damagedReport{in.Dir, cause(err)})
			continue
		}
		switch in.State {
		case overlay.Kept:
			r.Kept++
		case overlay.Committed:
			r.Committed++
		case overlay.Discarded:
			r.Discarded++
		}
		if in.Busy {
			r.Busy = append(r.Busy, in.ID)
		}
	}
	ended, _, _ := record.Retention() // others report mistakes in files
	for found, err := range overlay.Clean("", overlay.CleanOptions{Ended: ended, DryRun: true}) {
		if err != nil {
			continue // damaged, and reported above
		}
		if found.ID == "" {
			r.Size += found.Size
		}
		r.Removable = append(r.Removable, removableReport{found.Dir, found.Size})
	}
	r.Homes = examineHomes()
	return r, nil
}

// cause returns an error without the path that is printed with it.
func cause(err error) string {
	if e, ok := errors.AsType[*overlay.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func (r stateReport) print(w io.Writer) {
	if n := r.Homes.Count; n > 0 {
		defer fmt.Fprintf(w, "%s, %s on disk: nsrun home show --all\n", console.Plural(n, "home layer"), console.Size(r.Homes.Size))
	}
	n := r.Kept + r.Committed + r.Discarded + len(r.Damaged)
	if _, err := os.Lstat(r.Dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "sessions will be kept in %s\n", escape.Quote(r.Dir))
		return
	}
	least := ""
	if !r.Complete {
		least = "at least "
	}
	fmt.Fprintf(w, "%s in %s: %d kept, %d committed, %d discarded, %s%s on disk\n",
		console.Plural(n, "session"), escape.Quote(r.Dir), r.Kept, r.Committed, r.Discarded, least, console.Size(r.Size))
	for _, rec := range r.Recovered {
		if rec.Error != "" {
			fmt.Fprintf(w, "%9sinterrupted: %s: %s\n", "", rec.ID, escape.Printable(rec.Error))
		} else {
			fmt.Fprintf(w, "%9swas interrupted: %s: %s\n", "", rec.ID, rec.What)
		}
	}
	if len(r.Busy) > 0 {
		fmt.Fprintf(w, "%9sin use: %s\n", "", strings.Join(r.Busy, ", "))
	}
	for _, d := range r.Damaged {
		fmt.Fprintf(w, "%9sdamaged: %s: %s\n", "", escape.Quote(filepath.Base(d.Dir)), escape.Printable(d.Why))
	}
	if len(r.Removable) > 0 {
		var size int64
		for _, d := range r.Removable {
			size += d.Size
		}
		fmt.Fprintf(w, "%9s%s can be removed, %s: nsrun gc\n", "", console.Plural(len(r.Removable), "old session"), console.Size(size))
	}
}
