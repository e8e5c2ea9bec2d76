//go:build linux

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/project"
)

var filesVerb = usage.Verb{
	Name: "files", Args: "[flags] [PATH…]",
	Short: "list registered files and their backups",
	Long: `Lists the registered files at and below the paths (default: those of the current project).
Each line has id, state, last modification, number of backups, and path. The states are
there, deleted, and new, for files that are not in the project yet. nsrun registers a file
when a command first changes it, or with --scan. From then on, it keeps a backup of the
file as it was before the first change of each day, for seven days; nsrun restore brings
it back. docs/json.md of the source tree lists the keys of JSON.`,
	Examples: `nsrun files src
nsrun files --scan --backups`,
	Flags: func(fs *flag.FlagSet) { filesFlags(fs, &filesOptions{}) },
}

type filesOptions struct{ scan, backups, json bool }

func filesFlags(fs *flag.FlagSet, o *filesOptions) {
	fs.BoolVar(&o.scan, "scan", false, "first register all files, and forget missing ones without a backup")
	fs.BoolVar(&o.backups, "backups", false, "list only files with a backup")
	jsonFlag(fs, &o.json)
}

// fileReport is a file in `files --json`. The keys are stable.
type fileReport struct {
	ID           int64           `json:"id"`
	Path         string          `json:"path"`
	Project      string          `json:"project"`
	LastModified *time.Time      `json:"last_modified"` // null: not known
	Copy         string          `json:"last_approved_copy_path"`
	Deleted      bool            `json:"is_deleted"`
	Backups      []versionReport `json:"backups"`
}

// versionReport is a copy of a file that can be restored.
type versionReport struct {
	Date      string     `json:"date"` // YY-MM-DD
	Time      *time.Time `json:"time"` // null: not known
	Copy      string     `json:"backup"`
	Size      int64      `json:"size"`
	Mode      string     `json:"mode"`
	Execution string     `json:"execution"`
	Before    bool       `json:"before"` // the version before that execution, not the backup of its day
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func cmdFiles(args []string) int {
	var o filesOptions
	rest, status, ok := filesVerb.Parse(args, func(fs *flag.FlagSet) { filesFlags(fs, &o) })
	if !ok {
		return status
	}
	named := len(rest) > 0
	if !named {
		wd, err := workDir()
		if err != nil {
			return console.Fail(err)
		}
		rest = []string{nsrunlib.FindProject(wd)}
	}
	reg := project.Open(project.Options{})
	defer reg.Close()
	list := []fileReport{}
	for _, name := range rest {
		path, err := filePath(name)
		if err != nil {
			return console.Fail(err)
		}
		if named && !known(reg, path) {
			status = console.Fail(advice.Unknown("nsrun files", "no such file, and none is registered: %s", escape.Quote(path)))
			continue
		}
		if o.scan {
			ctx, stop := console.Interruptible()
			err := reg.Scan(ctx, path)
			stop()
			if err != nil {
				status = console.Fail(err)
			}
		}
		for f, err := range reg.Files(path) {
			if err != nil {
				status = console.Fail(err)
				continue
			}
			if o.backups && len(f.Backups) == 0 {
				continue
			}
			if f.LastModified.IsZero() && !f.Deleted {
				// It was registered because of a session that is not decided yet; the file may have
				// existed before.
				if fi, err := os.Lstat(f.Path); err == nil && fi.Mode().IsRegular() {
					f.LastModified = fi.ModTime()
				}
			}
			r := fileReport{ID: f.ID, Path: f.Path, Project: f.Project, LastModified: moment(f.LastModified), Copy: f.LastApprovedCopyPath, Deleted: f.Deleted, Backups: []versionReport{}}
			for _, b := range f.Backups {
				r.Backups = append(r.Backups, versionReport{Date: b.Date, Copy: b.Copy, Size: b.Size, Mode: jsonform.Octal(b.Mode), Execution: b.Execution})
			}
			list = append(list, r)
		}
	}
	if o.json {
		return max(status, console.PrintJSON(list))
	}
	out := bufio.NewWriter(os.Stdout)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range list {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", f.ID, f.state(), f.when(), len(f.Backups), escape.Quote(f.Path))
	}
	if err := errors.Join(w.Flush(), out.Flush()); err != nil {
		return console.Fail(err)
	}
	return status
}

func (f *fileReport) state() string {
	switch {
	case f.Deleted:
		return "deleted"
	case f.LastModified == nil:
		return "new"
	}
	return "there"
}

func (f *fileReport) when() string {
	if f.LastModified == nil {
		return "-"
	}
	return f.LastModified.Local().Format("2006-01-02 15:04:05")
}
