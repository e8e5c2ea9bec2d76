//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/nsrun/nsrun/overlay"
)

// The verbs that work on sessions. A session is named by its id, the beginning of
// it, or "last", the newest. Where none is named the newest of the project is meant that
// we are in, and never another project's.

// parseVerb parses the flags of a verb, which may stand between its other words, up to
// "--"; ok is false if that was all.
func parseVerb(name string, args []string, define func(*flag.FlagSet)) (rest []string, status int, ok bool) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if define != nil {
		define(fs)
	}
	for {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, help([]string{name}), false
		}
		if err != nil {
			return nil, fail(wrongFlag(name, err)), false
		}
		left := fs.Args()
		if n := len(args) - len(left); len(left) == 0 || n > 0 && args[n-1] == "--" {
			return append(rest, left...), 0, true
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// tellRecovered finishes or takes back what was interrupted, which opening sessions does
// as well, and says so.
func tellRecovered() {
	for r, err := range overlay.Recover("") {
		if text := recoveredText(r, err); text != "" {
			say("%s", text)
		}
	}
}

// recoveredText is empty where there is nothing to be told about a session.
func recoveredText(r overlay.Recovered, err error) string {
	switch {
	case r.ID == "": // the state directory: whoever opens it next has to say it
		return ""
	case err != nil:
		return fmt.Sprintf("session %s was interrupted, and stays so: %s", r.ID, err)
	case r.What == "":
		return ""
	}
	return fmt.Sprintf("session %s was interrupted: %s", r.ID, r.What)
}

func printJSON(v any) int {
	b, err := marshal(v)
	if err == nil {
		_, err = os.Stdout.Write(b)
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// marshal returns v as JSON for people too: whatever a terminal would act on is written
// as its number. The names in it come from the sandbox.
func marshal(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(escapeJSON(b), '\n'), nil
}

// escapeJSON writes what a terminal would act on as its number.
func escapeJSON(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for _, r := range string(b) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// sessionReport is a session in `ls --json` and `show --json`. The keys are
// stable.
type sessionReport struct {
	ID      string        `json:"session"`
	State   overlay.State `json:"state"`
	Engine  string        `json:"engine"` // overlay, tmpfs or copy
	Created time.Time     `json:"created"`
	Command []string      `json:"command"`
	Roots   []string      `json:"roots"`
	Busy    bool          `json:"busy"`       // a command runs in it, or somebody decides about it
	Size    *int64        `json:"size"`       // bytes on disk; null: not measured
	On      string        `json:"on"`         // the session that it was begun on; empty: none
	Later   *int          `json:"runs_later"` // how many of its changes would run later; null: not counted

	interrupted bool
}

func describe(in overlay.Info) sessionReport {
	r := sessionReport{ID: in.ID, State: in.State, Engine: in.Engine.String(), Created: in.Created, Command: in.Command, Roots: []string{}, Busy: in.Busy, On: in.On}
	r.interrupted = in.Interrupted
	if r.Command == nil {
		r.Command = []string{}
	}
	for _, root := range in.Roots {
		r.Roots = append(r.Roots, root.Path)
	}
	return r
}

// state is what people are told: whoever holds a session open runs a command in it,
// or decides about it.
func (r sessionReport) state() string {
	switch {
	case r.Busy:
		return "running"
	case r.interrupted:
		return "interrupted"
	}
	if r.Later != nil && *r.Later > 0 {
		return fmt.Sprintf("%s, %d run later", r.State, *r.Later)
	}
	return r.State.String()
}

// size is what people are told of the size.
func (r sessionReport) size() string {
	if r.Size == nil {
		return "-"
	}
	return sizeText(*r.Size)
}

const lsHelp = `The sessions of the project that one is in, or with --all of all projects. A line
each, the newest first: id, state, age, size on disk, project, command.
Sizes that take long to measure are - without --size. The states are running,
kept, committed, discarded, and interrupted for one in which something was begun
that could be neither finished nor taken back: nsrun doctor tells why. How many
of its changes would run later (hooks, settings of editors) stands beside kept.
JSON has the sessions of all projects, the oldest first. Its keys are listed in
docs/json.md of the source tree.`

// sizesMost bounds for how long ls measures sessions that nobody asked the size of.
const sizesMost = 200 * time.Millisecond

type lsOptions struct{ json, size, quiet, all bool }

func lsFlags(fs *flag.FlagSet, o *lsOptions) {
	jsonFlag(fs, &o.json)
	fs.BoolVar(&o.size, "size", false, "measure all sessions, however long that takes")
	fs.BoolVar(&o.all, "all", false, "list the sessions of all projects")
	fs.BoolVar(&o.quiet, "q", false, "print ids only")
}

func ls(args []string) int {
	var o lsOptions
	rest, status, ok := parseVerb("ls", args, func(fs *flag.FlagSet) { lsFlags(fs, &o) })
	if !ok {
		return status
	}
	if len(rest) > 0 {
		return fail(&usageError{"ls", "takes no arguments"})
	}
	if o.quiet && (o.json || o.size) {
		return fail(&usageError{"ls", "-q excludes --json and --size"})
	}
	tellRecovered()
	var infos []overlay.Info
	others := 0
	wd := here()
	for in, err := range overlay.List("") {
		switch {
		case err != nil:
			status = fail(err)
		case o.all || o.json || isHere(in, wd):
			infos = append(infos, in)
		default:
			others++
		}
	}
	list := make([]sessionReport, len(infos))
	for i, in := range infos {
		list[i] = describe(in)
	}
	if !o.quiet {
		measure(infos, list, o.size)
	}
	if o.json {
		return max(status, printJSON(list))
	}
	if len(list) == 0 && others > 0 && !o.quiet {
		say("no session of this project, and %d of others (try: nsrun ls --all)", others)
	}
	slices.Reverse(list)
	out := bufio.NewWriter(os.Stdout)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range list {
		if o.quiet {
			fmt.Fprintln(out, s.ID)
			continue
		}
		roots := make([]string, len(s.Roots))
		for i, r := range s.Roots {
			roots[i] = quote(r)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.state(), age(s.Created), s.size(), strings.Join(roots, " "), quoteCommand(s.Command))
	}
	if err := errors.Join(w.Flush(), out.Flush()); err != nil {
		return fail(err)
	}
	return status
}

// measure fills in the sizes and what runs later, those of the newest sessions, the last ones, first: all of them,
// or what can be had at once.
func measure(infos []overlay.Info, list []sessionReport, all bool) {
	ctx := context.Background()
	if !all {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sizesMost)
		defer cancel()
	}
	for i := range slices.Backward(infos) {
		if n, err := infos[i].Usage(ctx); err == nil {
			list[i].Size = &n
		}
		if n, ok := runLater(ctx, infos[i]); ok {
			list[i].Later = &n
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// runLater counts the changes of a session that would run later; ok is false where nobody
// can say, or not in time.
func runLater(ctx context.Context, in overlay.Info) (n int, ok bool) {
	switch {
	case in.Busy, in.Interrupted:
		return 0, false
	case in.State != overlay.Kept:
		return 0, true
	}
	s, err := overlay.OpenReadOnly("", in.ID)
	if err != nil {
		return 0, false
	}
	defer s.Close()
	for c, err := range s.Changes() {
		if err != nil || ctx.Err() != nil {
			return 0, false
		}
		if c.Runs != "" {
			n++
		}
	}
	return n, true
}

// age is how long ago t was, roughly.
func age(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// ago is age in a sentence.
func ago(t time.Time) string {
	if a := age(t); a != "now" {
		return a + " ago"
	}
	return "just now"
}

// sizeText is a number of bytes as ls -h has it.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	f, unit := float64(n)/1024, 0
	for ; f >= 999.5 && unit < len("KMGTPE")-1; unit++ {
		f /= 1024
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f%c", f, "KMGTPE"[unit])
	}
	return fmt.Sprintf("%.0f%c", f, "KMGTPE"[unit])
}

// sessionArg splits off the session that the first argument names, if it names
// one. Where none does it is the newest of the project that we are in, or empty.
func sessionArg(args []string) (id string, rest []string) {
	if len(args) > 0 {
		return args[0], args[1:]
	}
	return newestHere(func(overlay.Info) bool { return true }), nil
}

// decideArg is sessionArg for what decides about a session.
func decideArg(verb string, args []string) (id string, rest []string, err error) {
	if len(args) > 0 {
		return args[0], args[1:], nil
	}
	id, err = decidable(verb)
	return id, nil, err
}

// errNoneHere is what is said where a session is to be decided about and none was named:
// another project's is not taken for it.
var errNoneHere = errors.New("no session of this project")

// errNoneLeft is what is said where no session has changes that can be discarded.
var errNoneLeft = errors.New("nothing to discard: all changes of this project were committed or discarded already")

// newestHere is the newest session of the project that we are in, of those that wanted
// takes, or empty.
func newestHere(wanted func(overlay.Info) bool) (id string) {
	eachHere(func(in overlay.Info) {
		if wanted(in) {
			id = in.ID
		}
	})
	return id
}

// eachHere calls f for the sessions of the project that we are in, the oldest first.
func eachHere(f func(overlay.Info)) {
	wd := here()
	for in, err := range overlay.List("") {
		if err == nil && isHere(in, wd) {
			f(in)
		}
	}
}

// here is where we are, without symbolic links, or empty.
func here() string {
	wd, err := os.Getwd()
	if err == nil {
		wd, err = realPath(wd)
	}
	if err != nil {
		return ""
	}
	return wd
}

// isHere reports whether a session is of the project that the directory wd is in.
func isHere(in overlay.Info, wd string) bool {
	return wd != "" && slices.ContainsFunc(in.Roots, func(r overlay.Root) bool { return inside(wd, r.Path) })
}
