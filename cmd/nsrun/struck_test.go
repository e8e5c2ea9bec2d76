//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// A struckVerb is a verb that changes the user's files, or what nsrun keeps of them. One of its system calls fails, or
// it is killed there.
type struckVerb struct {
	name   string
	before []string // what is done before
	verb   string
	back   string // what takes it back; "": nothing does
	aside  bool   // what the owner wrote is no longer in the project
}

const (
	runAndKeep = "run --keep -q CHANGE"
	commitAll  = "commit -q --allow-exec --allow-special"
)

var struckVerbs = []struckVerb{
	{name: "commit", before: []string{runAndKeep, "owner: beside"}, verb: commitAll, back: "undo -q"},
	{name: "commit a part", before: []string{runAndKeep, "owner: beside"}, verb: "commit -q last changed deep/** two-a gone moved .git/config new/**", back: "undo -q"},
	{name: "commit over edits", before: []string{runAndKeep, "owner: conflict"}, verb: commitAll + " --theirs", back: "undo -q", aside: true},
	{name: "undo", before: []string{runAndKeep, "owner: beside", commitAll}, verb: "undo -q", back: commitAll},
	{name: "undo by force", before: []string{runAndKeep, commitAll, "owner: after"}, verb: "undo --force -q", aside: true},
	{name: "discard", before: []string{runAndKeep, "owner: beside"}, verb: "discard -q", back: "undo -q"},
	{name: "undo a discard", before: []string{runAndKeep, "owner: beside", "discard -q"}, verb: "undo -q", back: "discard -q"},
	{name: "drop", before: []string{runAndKeep, "owner: beside"}, verb: "drop -q last changed deep/** two-a gone", back: "undo -q"},
}

// A struckState is all that a verb may change.
type struckState struct{ project, sessions []string }

func (tr *struckTrial) differs(s, want struckState) (diff []string) {
	if tr.aside { // which times directories get that the owner changed is not promised
		s.project, want.project = withoutTimes(s.project), withoutTimes(want.project)
	}
	for _, l := range [][2][]string{{s.project, want.project}, {s.sessions, want.sessions}} {
		for _, line := range l[0] {
			if !slices.Contains(l[1], line) {
				diff = append(diff, "has   "+line)
			}
		}
		for _, line := range l[1] {
			if !slices.Contains(l[0], line) {
				diff = append(diff, "lacks "+line)
			}
		}
	}
	return diff
}

var timeOfDirectory = regexp.MustCompile(`^("[^"]*" 4[0-7]{4} [0-9:]+) at [0-9]+`)

func withoutTimes(list []string) []string {
	list = slices.Clone(list)
	for i, line := range list {
		list[i] = timeOfDirectory.ReplaceAllString(line, "$1")
	}
	return list
}

// A struckTrial is a verb with an engine, and what it does without a fault.
type struckTrial struct {
	struckVerb
	base, bin, engine string
	was, done         struckState
	calls             []strike.Call
}

func (tr *struckTrial) prepared(t *testing.T) *struckPlace {
	t.Helper()
	p := newStruckPlace(t, tr.base, tr.bin, tr.engine)
	for _, line := range tr.before {
		if status, out := p.do(t, line); status != 0 {
			t.Fatalf("%s: %d %s", line, status, out)
		}
	}
	return p
}

func (p *struckPlace) state(t *testing.T) (s struckState, err error) {
	t.Helper()
	s.sessions, err = p.sessions(t) // this recovers, if there is something to recover
	s.project = p.tree(t)
	return s, err
}

// strike runs the verb with a fault.
func (tr *struckTrial) strike(t *testing.T, p *struckPlace, plan strike.Plan) (strike.Result, string) {
	t.Helper()
	c, out := p.command(strings.Fields(tr.verb))
	plan.Looks, plan.Alone = true, true
	if plan.Only == nil {
		// The kernel has no such errors for an answer to a call, and without an answer the caller waits for ever.
		plan.Only = func(c strike.Call) bool { return !slices.Contains(c.Files, "anon_inode:seccomp notify") }
	}
	hangs := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
	defer hangs.Stop()
	r, err := strike.Run(c, plan)
	if errors.Is(err, strike.ErrNotPermitted) {
		testenv.Skip(t, "ptrace", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

// run does the verb without a fault.
func (tr *struckTrial) run(t *testing.T) {
	t.Helper()
	p := tr.prepared(t)
	defer p.drop(t)
	var err error
	if tr.was, err = p.state(t); err != nil {
		t.Fatal(err)
	}
	r, out := tr.strike(t, p, strike.Plan{Trace: func(_ int, c strike.Call) { tr.calls = append(tr.calls, c) }})
	if r.ExitCode != 0 {
		t.Fatalf("%s: %+v %s", tr.verb, r, out)
	}
	if tr.done, err = p.state(t); err != nil {
		t.Fatal(err)
	}
	if len(tr.differs(tr.done, tr.was)) == 0 {
		t.Fatalf("%s does nothing: %s", tr.verb, out)
	}
}

// struckErrnos are faults that can come from every call. Others, such as EPERM, EXDEV and ENOSYS, are answers: nsrun
// goes another way then.
var struckErrnos = []unix.Errno{unix.EIO, unix.ENOSPC, unix.ENOMEM, unix.EMFILE, unix.EDQUOT, unix.EROFS, unix.EBUSY, unix.ESTALE, unix.EINTR}

// points are all points at which the verb is struck: of each system call the first, the last, and some in between, with
// each errno.
func (tr *struckTrial) points() (list []strike.Plan) {
	at := map[string][]int{}
	for i, c := range tr.calls {
		at[c.Name] = append(at[c.Name], i+1)
	}
	for _, calls := range at {
		for _, i := range slices.Compact([]int{0, len(calls) / 4, len(calls) / 2, len(calls) * 3 / 4, len(calls) - 1}) {
			for _, errno := range struckErrnos {
				list = append(list, strike.Plan{At: calls[i], Do: strike.Fail, Errno: errno})
			}
			list = append(list, strike.Plan{At: calls[i], Do: strike.Kill}, strike.Plan{At: calls[i], Do: strike.KillAfter})
		}
	}
	slices.SortFunc(list, func(a, b strike.Plan) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Do, b.Do), cmp.Compare(a.Errno, b.Errno))
	})
	return list
}

// judge says what is wrong after the verb was struck.
func (tr *struckTrial) judge(t *testing.T, p *struckPlace, plan strike.Plan, r strike.Result, out string) (wrong []string) {
	t.Helper()
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	at := p.tree(t)
	if !r.Killed {
		wrong = append(wrong, badEnd(r, out)...)
	}
	now, err := p.state(t)
	if err != nil {
		note("afterwards: %v", err)
		return wrong
	}
	fromWas, fromDone := tr.differs(now, tr.was), tr.differs(now, tr.done)
	done, heldBack := len(fromDone) == 0, r.ExitCode == 0 && strings.Contains(out, "held back")
	told := saysDone(out)
	switch {
	case heldBack: // since it is not known whether it runs later, and it says so
		return wrong
	case !done && len(fromWas) > 0:
		near := slices.MinFunc([][]string{fromWas, fromDone}, func(a, b []string) int { return len(a) - len(b) })
		note("neither as before nor done: %s", few(near))
		return wrong
	case r.ExitCode == 0 && !done:
		note("it said that it was done, and it was not: %s", few(fromDone))
	case r.ExitCode > 0 && done && !told:
		note("it said that it failed, and it was done")
	}
	if later := tr.differs(struckState{at, now.sessions}, now); !r.Killed && len(later) > 0 && !strings.Contains(out, "next command") {
		note("the next command changed the project: %s", few(later))
	}
	wrong = append(wrong, tr.goOn(t, p, done, plan.Errno)...)
	if l := p.litter(t); len(l) > 0 {
		note("left: %q", l)
	}
	if tr.aside && !p.kept(t, ownersBytes+" changed") {
		note("what the owner wrote is lost")
	}
	return wrong
}

// saysDone reports whether what a verb said is an error of what it has done.
func saysDone(out string) bool {
	return slices.ContainsFunc([]string{"in the project already", "the commit was taken back", "; it was "}, func(text string) bool {
		return strings.Contains(out, text)
	})
}

// goOn does the verb, unless it is done, and takes it back.
func (tr *struckTrial) goOn(t *testing.T, p *struckPlace, done bool, errno unix.Errno) (wrong []string) {
	t.Helper()
	steps := []struct {
		line string
		want struckState
	}{{tr.verb, tr.done}, {tr.back, tr.was}}
	if done {
		steps = steps[1:]
	}
	for _, step := range steps {
		// Where a disk seems to be full, a discard frees the space.
		if step.line == "" || done && strings.HasPrefix(tr.verb, "discard") && (errno == unix.ENOSPC || errno == unix.EDQUOT) {
			continue
		}
		if status, said := p.do(t, step.line); status != 0 {
			return append(wrong, fmt.Sprintf("%s afterwards: %d %s", step.line, status, said))
		}
		if s, err := p.state(t); err != nil || len(tr.differs(s, step.want)) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s afterwards: %v %s", step.line, err, few(tr.differs(s, step.want))))
		}
	}
	return wrong
}

// badEnd says what is wrong with how the verb ended, and with what it said.
func badEnd(r strike.Result, out string) (wrong []string) {
	if r.ExitCode < 0 {
		return []string{"it was killed, or hangs: " + out}
	}
	if r.ExitCode == 0 {
		return nil
	}
	if strings.TrimSpace(out) == "" {
		return []string{fmt.Sprintf("exit status %d without a word", r.ExitCode)}
	}
	for _, bad := range []string{"panic", "goroutine ", "runtime error", "runtime:", "fatal error", "BUG", "%!", "<nil>"} {
		if strings.Contains(out, bad) {
			return []string{"it said: " + short(out)}
		}
	}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "nsrun: ") && !strings.HasPrefix(line, "  ") {
			return []string{"it said: " + short(out)}
		}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if bareErrno.MatchString(lines[len(lines)-1]) {
		return []string{"it names no cause: " + out}
	}
	return nil
}

// bareErrno is an error without anything that it is about.
var bareErrno = regexp.MustCompile(`^nsrun: [^:/]*$`)

func few(list []string) string {
	const most = 6
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, "\n\t\t\t")
}

// TestVerbsStruck lets system calls of verbs fail, also those that only look, and kills the verbs there. Each verb then
// is done, or nothing is; it says which; and one can go on. NSRUN_SEEDS="7 100" chooses 100 points for each verb by the
// seed 7.
func TestVerbsStruck(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	seed, many := seeds(t, 1, 60)
	base, bin := fastDir(t), installed(t)
	for i, v := range struckVerbs {
		for _, engine := range enginesOf(i, many) {
			t.Run(strings.ReplaceAll(v.name, " ", "-")+"/"+engine, func(t *testing.T) {
				tr := &struckTrial{struckVerb: v, base: base, bin: bin, engine: engine}
				tr.run(t)
				tr.try(t, seed, many, tr.judge)
			})
		}
	}
}

// seeds are the seed and the number of points for each trial: few, or many with NSRUN_LONG, or what NSRUN_SEEDS says.
func seeds(t *testing.T, few, long int) (seed uint64, many int) {
	t.Helper()
	seed, many = 1, few
	if testenv.Long() {
		seed, many = uint64(time.Now().UnixNano()), long
	}
	if text := os.Getenv("NSRUN_SEEDS"); text != "" {
		if _, err := fmt.Sscan(text, &seed, &many); err != nil {
			t.Fatal(err)
		}
	}
	return seed, many
}

// enginesOf are the engines for the i-th trial: both, or one where each trial has one point.
func enginesOf(i, many int) []string {
	both := []string{"overlay", "copy"}
	switch {
	case !testenv.Turn(i):
		return nil
	case many == 1:
		return both[i/2%2:][:1]
	}
	return both
}

// A judge says what is wrong after a point was struck.
type judge func(t *testing.T, p *struckPlace, plan strike.Plan, r strike.Result, out string) []string

// try strikes the verb at so many points.
func (tr *struckTrial) try(t *testing.T, seed uint64, many int, judge judge) {
	t.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	points := tr.points()
	rand.New(rand.NewPCG(seed, h.Sum64())).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	t.Logf(`%d calls, %d points; NSRUN_SEEDS="%d %d" repeats these`, len(tr.calls), len(points), seed, many)
	for _, plan := range points[:min(many, len(points))] {
		p := tr.prepared(t)
		r, out := tr.strike(t, p, plan)
		wrong := judge(t, p, plan, r, out)
		p.drop(t)
		if len(wrong) > 0 {
			how := plan.Do.String()
			if plan.Do == strike.Fail {
				how += " with " + unix.ErrnoName(plan.Errno)
			}
			t.Errorf("%s at %d, %s\n\tstatus %d: %s\n\t%s", how, plan.At, r.Call, r.ExitCode, strings.TrimSpace(out), strings.Join(wrong, "\n\t"))
		}
	}
}

// fastDir is a directory in memory, or on the disk where there is none in memory that takes an overlay.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "nsrun-struck-")
	if err != nil {
		return testenv.Dir(t)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if unix.Setxattr(dir, "user.nsrun", nil, 0) != nil {
		return testenv.Dir(t)
	}
	return filepath.Clean(dir)
}
