//go:build linux

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// struckRuns are runs that end with a change of the project, or of what nsrun keeps.
var struckRuns = []string{"--commit --allow-exec --allow-special", "--keep", "--discard", "--commit -q --allow-exec --allow-special --why"}

// TestRunsStruck lets system calls of nsrun run fail, from its first to the end of the commit, and kills it there. Then
// the project is as before, or all is committed; nsrun says which; nothing is left behind; and the next run works.
// NSRUN_SEEDS="7 100" chooses 100 points for each run by the seed 7.
func TestRunsStruck(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	seed, many := seeds(t, 1, 80)
	base, bin := fastDir(t), installed(t)
	for i, flags := range struckRuns {
		for _, engine := range enginesOf(i, many) {
			t.Run(strings.ReplaceAll(strings.ReplaceAll(flags, "--", ""), " ", "-")+"/"+engine, func(t *testing.T) {
				tr := &struckTrial{base: base, bin: bin, engine: engine, struckVerb: struckVerb{
					before: []string{"owner: beside"}, verb: "run " + flags + " CHANGE",
				}}
				tr.runs(t, seed, many)
			})
		}
	}
}

// runs strikes the run at so many points.
func (tr *struckTrial) runs(t *testing.T, seed uint64, many int) {
	t.Helper()
	p := tr.prepared(t)
	before := p.tree(t)
	r, out := tr.strike(t, p, strike.Plan{Trace: func(_ int, c strike.Call) { tr.calls = append(tr.calls, c) }})
	if r.ExitCode != 0 {
		t.Fatalf("%s: %+v %s", tr.verb, r, out)
	}
	after := p.tree(t)
	p.drop(t)
	if commits := strings.Contains(tr.verb, "--commit"); commits == slices.Equal(before, after) {
		t.Fatalf("%s: %s", tr.verb, out)
	}
	tr.try(t, seed, many, func(t *testing.T, p *struckPlace, _ strike.Plan, r strike.Result, out string) []string {
		return tr.judgeRun(t, p, r, out, before, after)
	})
}

// ofCommand is a line of the command's.
var ofCommand = regexp.MustCompile(`(?m)^(mv|rm|ln|mkdir|mkfifo|chmod|find|touch|head|/bin/sh): .*\n`)

// judgeRun says what is wrong after a run was struck.
func (tr *struckTrial) judgeRun(t *testing.T, p *struckPlace, r strike.Result, out string, before, after []string) (wrong []string) {
	t.Helper()
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	at := p.tree(t)
	// The command fails where nsrun moves a directory for it. Then it is the command that says so.
	if !r.Killed && (!ofCommand.MatchString(out) || strings.Contains(out, "goroutine ")) {
		wrong = append(wrong, badEnd(r, out)...)
	}
	now, err := p.state(t)
	if err != nil {
		note("afterwards: %v", err)
		return wrong
	}
	done := slices.Equal(now.project, after)
	switch {
	case !done && !slices.Equal(now.project, before):
		fromBefore, fromAfter := tr.differs(now, struckState{before, now.sessions}), tr.differs(now, struckState{after, now.sessions})
		near := slices.MinFunc([][]string{fromBefore, fromAfter}, func(a, b []string) int { return len(a) - len(b) })
		note("neither as before nor done: %s", few(near))
		return wrong
	case r.ExitCode == 0 && !done && !strings.Contains(out, "held back"):
		note("it said that it was done, and it was not")
	case r.ExitCode > 0 && done && !slices.Equal(before, after) && !saysDone(out):
		note("it said that it failed, and it was done")
	}
	if !r.Killed && !slices.Equal(at, now.project) && !strings.Contains(out, "next command") {
		note("the next command changed the project")
	}
	if l := p.litter(t); len(l) > 0 {
		note("left: %q", l)
	}
	if status, said := p.do(t, "run -q --discard -- true"); status != 0 {
		note("the next run: %d %s", status, said)
	}
	if done && !slices.Equal(before, after) {
		if status, said := p.do(t, "undo -q"); status != 0 || !slices.Equal(p.tree(t), before) {
			note("undo: %d %s", status, said)
		}
	}
	return wrong
}
