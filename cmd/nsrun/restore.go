//go:build linux

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

var restoreVerb = usage.Verb{
	Name: "restore", Args: "[flags] PATH",
	Short: "put a file back as it was",
	Long: `Restores the newest backup by default: the file as it was before its first change of that
day. Without a backup, restores the version before the last command that changed the file.
--list prints each version with the flag that selects it, its time, mode and size.
Discarded changes were never in the project, so they are not listed: nsrun log FILE prints
the executions, nsrun log with one of them names its session, and nsrun undo brings its
changes back.
restore first saves the present version, and nsrun restore --from brings it back; if it
cannot be saved, nothing is done. The file gets its former mode; missing directories are
created. Backups are kept for seven days. docs/json.md of the source tree lists the keys
of JSON.`,
	Examples: `nsrun restore --list src/main.go
nsrun restore --from last src/main.go`,
	Flags: func(fs *flag.FlagSet) { restoreFlags(fs, &restoreOptions{}) },
}

type restoreOptions struct {
	date, from, to    string
	list, json, quiet bool
}

func restoreFlags(fs *flag.FlagSet, o *restoreOptions) {
	fs.Func("date", "restore the backup of this day: `YY-MM-DD` or YYYY-MM-DD", func(s string) (err error) {
		o.date, err = parseDate(s)
		return err
	})
	fs.Func("from", "restore the version before `EXECUTION`, an id from nsrun log, or last for the newest that changed the file", func(s string) error {
		if s == "" {
			return errors.New("empty id")
		}
		o.from = s
		return nil
	})
	fs.StringVar(&o.to, "to", "", "write to another `file`; - means standard output")
	fs.BoolVar(&o.list, "list", false, "list the versions, and do nothing")
	jsonFlag(fs, &o.json)
	quietFlag(fs, &o.quiet)
}

// parseDate returns a day as backups name it.
func parseDate(s string) (string, error) {
	for _, layout := range [...]string{"06-01-02", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.Format("06-01-02"), nil
		}
	}
	return "", errors.New("not a date like 26-01-31")
}

func cmdRestore(args []string) int {
	var o restoreOptions
	rest, status, ok := restoreVerb.Parse(args, func(fs *flag.FlagSet) { restoreFlags(fs, &o) })
	if !ok {
		return status
	}
	switch {
	case len(rest) != 1:
		return console.Fail(usage.Errorf("restore", "takes the path of one file"))
	case o.date != "" && o.from != "":
		return console.Fail(usage.Errorf("restore", "--date and --from exclude each other"))
	case o.list && (o.date != "" || o.from != ""):
		return console.Fail(usage.Errorf("restore", "--list lists all versions, without --date and --from"))
	case o.list && o.to != "":
		return console.Fail(usage.Errorf("restore", "--list writes no file"))
	case o.json && !o.list:
		return console.Fail(usage.Errorf("restore", "--json is for --list"))
	}
	path, err := filePath(rest[0])
	if err != nil {
		return console.Fail(err)
	}
	reg := project.Open(project.Options{})
	defer reg.Close()
	versions, err := reg.Versions(path)
	if err != nil {
		return console.Fail(err)
	}
	if len(versions) == 0 && !o.json {
		hint := "try: nsrun files --backups"
		if id := discardedWith(reg, path); id != "" {
			hint = "it was discarded with a session; try: nsrun undo " + id
		}
		return console.Fail(advice.With(fmt.Errorf("restore %s: there is no backup or other version of it", escape.Quote(path)), hint))
	}
	if o.list {
		return listVersions(versions, o.json)
	}
	what := "there is no backup of it"
	switch {
	case o.date != "":
		what += " from " + o.date
	case o.from != "":
		if o.from, err = executionID(reg, o.from, path); err != nil {
			return console.Fail(fmt.Errorf("restore %s: %w", escape.Quote(path), err))
		}
		what = "no version of it from before " + shortExecution(o.from) + " is kept"
	}
	v, err := project.Choose(versions, o.date, o.from)
	if err != nil {
		return console.Fail(advice.Unknown(escape.Command([]string{"nsrun", "restore", "--list", path}), "restore %s: %s", escape.Quote(path), what))
	}
	if o.to == "-" {
		return printVersion(reg, v)
	}
	to := path
	if o.to != "" {
		if to, err = filePath(o.to); err != nil {
			return console.Fail(err)
		}
	}
	console.Unread()
	ctx, stop := console.Interruptible()
	done, err := reg.Restore(ctx, v, to)
	stop()
	if err != nil {
		status = console.Fail(err)
	}
	if done.Done && !o.quiet {
		if o.date+o.from == "" && slices.ContainsFunc(versions, func(newer project.Version) bool { return newer.Time.After(v.Time) }) {
			console.Say("there are newer versions of %s (try: nsrun restore --list %s)", escape.Quote(path), escape.Command([]string{path}))
		}
		text := fmt.Sprintf("restored %s as it was %s", escape.Quote(done.Path), versionTime(v))
		if done.Saved != "" {
			text += ": nsrun restore --from " + shortExecution(done.Execution) + " " + escape.Quote(done.Path) + " brings the former version back"
		}
		console.Say("%s", text)
	}
	return status
}

// discardedWith is the newest session that changed something at a path, was discarded, and can be taken back; or empty.
func discardedWith(reg *project.Registry, path string) string {
	kept := map[string]bool{}
	for in, err := range overlay.List("") {
		if err == nil && in.State == overlay.Discarded && in.Undo != overlay.NoDeed {
			kept[in.ID] = true
		}
	}
	if len(kept) == 0 {
		return ""
	}
	for e, err := range reg.Executions(project.Filter{Path: path}) {
		if err == nil && kept[e.Session] {
			return e.Session
		}
	}
	return ""
}

func printVersion(reg *project.Registry, v project.Version) int {
	f, err := reg.OpenVersion(v)
	if err != nil {
		return console.Fail(err)
	}
	defer f.Close()
	if _, err := io.Copy(os.Stdout, f); err != nil {
		return console.Fail(err)
	}
	return 0
}

// versionTime is when the file had this version.
func versionTime(v project.Version) string {
	if v.Before {
		return "before " + shortExecution(v.Execution)
	}
	return "on " + v.Date
}

func listVersions(versions []project.Version, asJSON bool) int {
	if asJSON {
		list := make([]versionReport, len(versions))
		for i, v := range versions {
			list[i] = versionReport{v.Date, moment(v.Time), v.Copy, v.Size, jsonform.Octal(v.Mode), v.Execution, v.Before}
		}
		return console.PrintJSON(list)
	}
	out := bufio.NewWriter(os.Stdout)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, v := range versions {
		how := "--date " + v.Date
		if v.Before {
			how = "--from " + shortExecution(v.Execution)
		}
		when := v.Date
		if !v.Time.IsZero() {
			when = v.Time.Local().Format("2006-01-02 15:04:05")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", how, when, jsonform.Octal(v.Mode), console.Size(v.Size))
	}
	if err := errors.Join(w.Flush(), out.Flush()); err != nil {
		return console.Fail(err)
	}
	return 0
}
