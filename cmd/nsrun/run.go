//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/record"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

var runVerb = usage.Verb{
	Name: "run", Args: "[flags] [--] COMMAND [ARG…]",
	Short: "run a command in a sandbox over the project",
	Long: `The command sees the host's files read-only, without secrets. The project is
writable behind an overlay; /tmp, /dev and /proc are private; there is no network.
Changes are kept as a session until they are committed or discarded. The exit status
is the command's, or 124 (timed out), 125 (nsrun failed), 126 (cannot execute),
127 (not found), 128+n (signal n).`,
	Examples: `nsrun run -- npm test
nsrun run -c 'make && ./hello'
nsrun run --allow-net '*.example.org' -- npm ci
nsrun run --discard --block .env -- make
nsrun run --session last -- make test`,
	Flags: func(fs *flag.FlagSet) { runFlags(fs, &runOptions{}) },
}

func cmdRun(args []string) int {
	limit := newStartLimit(args)
	begun := aheadOfFlags(args)
	o := &runOptions{}
	if err := parseRun(&runVerb, args, o, nil); err != nil {
		return runVerb.Fail(err)
	}
	r := &runner{o: o, begun: begun, limit: limit, state: overlay.Discarded.String(), registry: project.Open(project.Options{})}
	if o.session != "" {
		r.state = overlay.Kept.String()
	}
	defer func() {
		r.close()
		if r.interrupted {
			console.EndBy(unix.SIGINT) // a loop of a shell ends with it
		}
	}()
	if o.explainPolicy {
		return r.policy(false, false)
	}
	if o.explain {
		c, q, err := r.request()
		if err == nil {
			err = nsrunlib.NewRunner(c).Explain(context.Background(), os.Stdout, q)
		}
		if err != nil {
			return console.Fail(r.typed(err))
		}
		return 0
	}
	console.Unread()
	if err := r.openReport(); err != nil {
		return console.Fail(err)
	}
	status := r.all()
	if r.state != overlay.Kept.String() && r.session != nil && !r.dropped {
		record.Tidy()
	}
	if err := r.writeReport(status); err != nil {
		return console.Fail(err)
	}
	return status
}

// all does everything except writing the report.
func (r *runner) all() int {
	// This comes first if a session is opened, which may be an interrupted one; otherwise it runs while programs
	// load.
	resumes := r.o.session != "" || r.o.on != ""
	if resumes {
		tellRecovered()
	}
	c, q, err := r.request()
	if err != nil {
		return console.Fail(err)
	}
	if !r.begun {
		ahead(&c)
	}
	r.limit.set(c.Timeout)
	n := nsrunlib.NewRunner(c)
	defer func() { // last: it waits until the kernel has unmounted what the command had
		if err := n.Close(); err != nil && !sameCause(err, r.told) {
			console.Say("%s", err)
		}
	}()
	n.Preload()
	r.beginNotify()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.early = r.guardStart(cancel)
	if !resumes && !r.o.direct {
		tellRecovered()
	}
	if !r.o.direct && console.IsTerminal(os.Stderr) {
		r.before = console.SaveTerminal()
	}
	status := r.run(ctx, n, c, q)
	err = r.finish(status)
	r.tellHome(c.Project)
	r.noteRun()
	switch {
	case err != nil:
		r.told = err
		return failDecision("commit", err, r.session, overlay.CommitOptions{AllowExec: r.o.allowExec, AllowSpecial: r.o.allowSpecial})
	case r.interrupted:
		return console.ExitInterrupted // if our caller ignores SIGINT
	}
	return status
}

// sameCause reports whether two errors are the same one of the kernel's.
func sameCause(a, b error) bool {
	e, ok := errors.AsType[syscall.Errno](a)
	return ok && b != nil && errors.Is(b, e)
}

// ready opens, in the background, the files in which the command's end is recorded. The returned function waits for the
// files of noteRun.
func (r *runner) ready(c nsrunlib.Config) func() []*os.File {
	var roots []string
	switch {
	case r.session != nil:
		for _, root := range r.session.Roots() {
			roots = append(roots, root.Path)
		}
	case c.Project != "":
		if real, err := realPath(c.Project); err == nil {
			roots = append(roots, real)
		}
	}
	files := make(chan []*os.File, 1)
	go func() {
		r.registry.Prepare()
		files <- lastRunFiles(roots)
	}()
	return func() []*os.File { return <-files }
}

func (r *runner) noteRun() {
	if r.lastRun == nil {
		return
	}
	id := ""
	if r.session != nil && !r.dropped {
		id = r.session.ID()
	}
	noteRun(r.lastRun(), id)
}
