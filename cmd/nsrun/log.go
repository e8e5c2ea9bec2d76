//go:build linux

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/jsonform"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/advice"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

var logVerb = usage.Verb{
	Name: "log", Args: "[flags] [EXECUTION] [PATH]",
	Short: "show past commands and what they changed",
	Long: `Prints the past commands of the current project, or with --all of all projects, newest
first. Each line has the id, the time, the exit status, what happened to the changes,
their number (direct: they were not counted), and the command. With an id, its last eight
characters, or last (the newest of the project), prints that execution and its changes.
With a PATH, prints the executions that changed something at or below it.

With -p, prints how each execution changed files: from the version before it to the
version in its session, or, once the session is gone, to the present file; a message on
standard error says which. For binary files it prints the sizes; nsrun diff --patch prints
them whole, for git apply. On a terminal the output goes through $NSRUN_PAGER, $PAGER or
less.

Executions stay in the log for 90 days, versions of files for seven. docs/json.md of the
source tree lists the keys of JSON.`,
	Examples: `nsrun log src/main.go
nsrun log -p last`,
	Flags: func(fs *flag.FlagSet) { logFlags(fs, &logOptions{}) },
}

type logOptions struct {
	most        int
	session     string
	json, patch bool
	all         bool
}

func logFlags(fs *flag.FlagSet, o *logOptions) {
	fs.Func("n", "show at most `NUMBER`; 0 means all (default 20)", func(s string) error {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return errors.New("not a number")
		}
		o.most = int(n)
		return nil
	})
	fs.Func("session", "show only executions in this `SESSION`", sessionValue(&o.session))
	fs.BoolVar(&o.all, "all", false, "include all projects")
	fs.BoolVar(&o.patch, "p", false, "show what changed in files")
	fs.BoolVar(&o.patch, "patch", false, "show what changed in files")
	jsonFlag(fs, &o.json)
}

// executionReport is an execution in `log --json`. The keys are stable.
type executionReport struct {
	ID       string            `json:"execution"`
	Session  string            `json:"session"`
	Command  []string          `json:"command"`
	Dir      string            `json:"dir"`
	Roots    []string          `json:"roots"`
	Began    time.Time         `json:"began"`
	Ended    time.Time         `json:"ended"`
	ExitCode int               `json:"exit_code"`
	Signal   string            `json:"signal"`
	TimedOut bool              `json:"timed_out"`
	Denied   []string          `json:"denied"`
	Network  string            `json:"network"`
	Backend  string            `json:"backend"`
	Engine   string            `json:"engine"`
	State    string            `json:"state"`
	Changes  []loggedChange    `json:"changes"`
	More     int               `json:"more"` // changes that are not listed
	rec      project.Execution `json:"-"`
}

type loggedChange struct {
	Kind   project.Kind `json:"kind"`
	Root   string       `json:"root"`
	Path   string       `json:"path"`
	Mode   string       `json:"mode"`
	Size   int64        `json:"size"`
	Before string       `json:"before"` // where the version before is kept; empty: nowhere

	Dropped bool   `json:"dropped"`        // it was taken out of the session
	Runs    string `json:"runs,omitempty"` // why it would run later
}

func reportExecution(e project.Execution) executionReport {
	r := executionReport{
		ID: e.ID, Session: e.Session, Command: e.Command, Dir: e.Dir, Roots: e.Roots, Began: e.Began, Ended: e.Ended, ExitCode: e.ExitCode,
		Signal: e.Signal, TimedOut: e.TimedOut, Denied: e.Denied, Network: e.Network, Backend: e.Backend, Engine: e.Engine, State: e.State,
		Changes: []loggedChange{}, More: e.More, rec: e,
	}
	for _, c := range e.Changes {
		r.Changes = append(r.Changes, loggedChange{c.Kind, c.Root, c.Path, jsonform.Octal(c.Mode), c.Size, c.Before, c.Dropped, c.Runs})
	}
	return r
}

// shortExecution returns the end of an execution's id, which is also unique.
func shortExecution(id string) string { return id[strings.LastIndexByte(id, '-')+1:] }

func cmdLog(args []string) int {
	o := logOptions{most: 20}
	rest, status, ok := logVerb.Parse(args, func(fs *flag.FlagSet) { logFlags(fs, &o) })
	if !ok {
		return status
	}
	var err error
	if o.session, err = sessionNamed(o.session); err != nil {
		return console.Fail(err)
	}
	f := project.Filter{Session: o.session, Most: o.most}
	if o.session != "" {
		// The log may have sessions that no longer exist, by their whole ids.
		if s, err := overlay.OpenReadOnly("", o.session); err == nil {
			f.Session = s.ID()
			_ = s.Close()
		}
	}
	reg := project.Open(project.Options{})
	defer reg.Close()
	if len(rest) > 0 && isExecution(reg, rest[0]) {
		f.ID, f.Most, rest = rest[0], 1, rest[1:]
	}
	switch {
	case len(rest) > 1:
		return console.Fail(usage.Errorf("log", "takes one execution, one path, or both"))
	case o.patch && o.json:
		return console.Fail(usage.Errorf("log", "-p and --json exclude each other"))
	case len(rest) == 1:
		path, err := filePath(rest[0])
		if err != nil {
			return console.Fail(err)
		}
		f.Path = path
	}
	list := []executionReport{}
	everywhere := o.all || o.json || f.ID != "" || f.Path != "" || f.Session != ""
	of, err := projectFilter()
	if err != nil && (!everywhere || f.ID == "last" && f.Path == "") {
		return console.Fail(err)
	}
	others := 0
	if f.ID == "last" && f.Path == "" && !o.all {
		if f.ID = newestExecution(reg, f.Session, of); f.ID == "" {
			_, err := executionID(reg, "last", "")
			return console.Fail(cmp.Or(err, advice.Unknown("nsrun log --all", "nothing was run in this project")))
		}
	}
	if !everywhere {
		f.Most = 0
	}
	for e, err := range reg.Executions(f) {
		if err != nil {
			status = console.Fail(err)
			continue
		}
		if !everywhere && !of(&e) {
			others++
			continue
		}
		if list = append(list, reportExecution(e)); len(list) == o.most && !everywhere {
			break
		}
	}
	if len(list) == 0 && others > 0 {
		console.Say("nothing was run in this project, and %s in others (try: nsrun log --all)", console.Plural(others, "command"))
	}
	if len(list) == 0 && status == 0 {
		if err := notInLog(reg, f); err != nil {
			return console.Fail(err)
		}
	}
	if o.json {
		return max(status, console.PrintJSON(list))
	}
	if err := writeLog(reg, list, f, o.patch); err != nil {
		return console.Fail(err)
	}
	return status
}

// writeLog writes executions for people; f is the filter that selected them.
func writeLog(reg *project.Registry, list []executionReport, f project.Filter, patch bool) (err error) {
	out := console.OpenOutput()
	switch {
	case patch:
		to := out.Shown()
		for i := 0; i < len(list) && err == nil; i++ {
			if f.ID == "" { // which patch is whose
				if i > 0 {
					fmt.Fprintln(to)
				}
				err = printLog(to, list[i:i+1])
			}
			if err == nil {
				err = printPatch(to, reg, &list[i].rec, f.Path)
			}
		}
	case f.ID != "":
		for i := range list {
			list[i].print(out)
		}
	default:
		err = printLog(out, list)
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return console.Unwanted(err)
}

// newestExecution returns the newest execution that of accepts, in a session if one is given, or "".
func newestExecution(reg *project.Registry, session string, of func(*project.Execution) bool) string {
	for e, err := range reg.Executions(project.Filter{Session: session}) {
		if err == nil && of(&e) {
			return e.ID
		}
	}
	return ""
}

// projectFilter accepts the executions of the current project: those that have it as a root, or that were started in it
// without a session.
func projectFilter() (of func(e *project.Execution) bool, err error) {
	wd, err := here()
	at := nsrunlib.FindProject(wd)
	return func(e *project.Execution) bool {
		return wd != "" && (slices.ContainsFunc(e.Roots, func(root string) bool { return paths.Inside(wd, root) }) ||
			len(e.Roots) == 0 && (e.Dir == at || paths.Inside(e.Dir, at) && nsrunlib.FindProject(e.Dir) == at))
	}, err
}

// notInLog says what is wrong with a filter that matched nothing. Nil: the filter is right, and nothing matched.
func notInLog(reg *project.Registry, f project.Filter) error {
	if f.ID != "" {
		id, err := executionID(reg, f.ID, "")
		if err == nil && f.Path != "" {
			err = advice.Unknown("nsrun log "+shortExecution(id), "%s changed nothing at %s", shortExecution(id), escape.Quote(f.Path))
		}
		if err != nil || f.Session == "" {
			return err
		}
		return advice.Unknown("nsrun log "+shortExecution(id), "%s is not in session %s", shortExecution(id), escape.Quote(f.Session))
	}
	if f.Session != "" {
		if s, err := overlay.OpenReadOnly("", f.Session); err == nil {
			return s.Close()
		}
		for range reg.Executions(project.Filter{Session: f.Session, Most: 1}) {
			return nil
		}
		return advice.Unknown("nsrun log, or nsrun ls", "no such session: %s", escape.Quote(f.Session))
	}
	if f.Path == "" || known(reg, f.Path) {
		return nil
	}
	return advice.Unknown("nsrun log, or nsrun files", "no such execution or file: %s", escape.Quote(f.Path))
}

// executionID returns the whole id that a word means. "last" is the newest execution, of those that changed something
// at path if that is not empty.
func executionID(reg *project.Registry, word, path string) (string, error) {
	if word != "last" {
		path = ""
	}
	for e, err := range reg.Executions(project.Filter{ID: word, Path: path, Most: 1}) {
		return e.ID, err
	}
	switch {
	case path != "":
		return "", errors.New("no command has changed it")
	case word == "last":
		return "", errors.New("no command has run yet")
	}
	return "", advice.Unknown("nsrun log", "no such execution: %s", escape.Quote(word))
}

// known reports whether a path exists, or a file at or below it is registered.
func known(reg *project.Registry, path string) bool {
	if _, err := os.Lstat(path); err == nil {
		return true
	}
	for range reg.Files(path) {
		return true
	}
	return false
}

// isExecution reports whether a word means an execution. A file of that name counts only if there is no such execution.
func isExecution(reg *project.Registry, word string) bool {
	if word == "last" || project.IsExecution(word) {
		return true
	}
	if len(word) != 8 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return false
	}
	_, err := executionID(reg, word, "")
	return err == nil
}

func printLog(out io.Writer, list []executionReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range list {
		e := &list[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", shortExecution(e.ID), e.Began.Local().Format("2006-01-02 15:04:05"), e.exit(),
			cmp.Or(quoteWord(e.State), "-"), e.count(), escape.Command(e.Command))
	}
	return w.Flush()
}

// count says how many changes there were, and how many of them run later.
func (e *executionReport) count() string {
	if e.direct() {
		return "direct"
	}
	text := console.Plural(len(e.Changes)+e.More, "change")
	n := 0
	for _, c := range e.Changes {
		if c.Runs != "" {
			n++
		}
	}
	if n > 0 {
		text += fmt.Sprintf(" (%d run later)", n)
	}
	return text
}

// direct reports whether the command ran without a session, so that its changes were not counted. One that was denied
// took no time.
func (e *executionReport) direct() bool {
	return e.Session == "" && e.Engine == "" && e.Ended.After(e.Began) && len(e.Changes)+e.More == 0
}

// quoteWord is quote, except that an empty string stays empty.
func quoteWord(s string) string {
	if s == "" {
		return ""
	}
	return escape.Quote(s)
}

// exit says in a word how the command ended.
func (e *executionReport) exit() string {
	switch {
	case e.TimedOut:
		return "timeout"
	case e.Signal != "":
		return escape.Quote(e.Signal)
	}
	return strconv.Itoa(e.ExitCode)
}

// print prints everything about one execution.
func (e *executionReport) print(out io.Writer) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%-9s %s\n", name, value)
		}
	}
	line("execution", e.ID)
	line("session", quoteWord(e.Session))
	line("command", escape.Command(e.Command))
	line("in", quoteWord(e.Dir))
	for _, root := range e.Roots {
		line("root", escape.Quote(root))
	}
	line("began", fmt.Sprintf("%s (%s)", e.Began.Local().Format("2006-01-02 15:04:05"), console.Ago(e.Began)))
	line("took", e.Ended.Sub(e.Began).Round(time.Millisecond).String())
	line("exit", e.exit())
	line("network", quoteWord(e.Network))
	line("backend", strings.TrimSpace(quoteWord(e.Backend)+" "+quoteWord(e.Engine)))
	line("state", quoteWord(e.State))
	if e.direct() {
		line("changes", "direct: not counted")
	}
	for _, d := range e.Denied {
		line("denied", escape.Quote(d))
	}
	if len(e.Changes) > 0 {
		fmt.Fprintln(out)
	}
	for _, c := range e.Changes {
		name := c.Path
		if len(e.Roots) > 1 {
			name = filepath.Join(c.Root, c.Path)
		}
		var about []string
		if c.Runs != "" {
			about = append(about, overlay.Change{Runs: escape.Quote(c.Runs)}.Later())
		}
		if c.Dropped {
			about = append(about, "dropped")
		}
		more := ""
		if about != nil {
			more = " (" + strings.Join(about, ", ") + ")"
		}
		fmt.Fprintf(out, "%c %s%s\n", c.Kind.Letter(), escape.Quote(name), more)
	}
	if e.More > 0 {
		fmt.Fprintf(out, "and %s more\n", console.Plural(e.More, "change"))
	}
}
