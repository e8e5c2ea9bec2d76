//go:build linux

package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// The crash tests let a process that commits, or undoes, or discards, be killed at each
// of its system calls that change something, or let that call fail; then what it left is
// mended, as the next command would, and must be what it was before or what it should have
// become: in the project and in the session.
//
// NSRUN_CRASH_POINTS says how many points of each trial are tried: a number, or "all"; and all
// ways of striking are tried then. Unset: as many as a test that others wait for can do, and with
// NSRUN_LONG three times that, as root and as a user.

// crashEnv makes the test binary do one thing to a session, to be struck.
const crashEnv = "NSRUN_OVERLAY_TEST_CRASH"

// A deed is what the struck process does.
type deed struct {
	State string // the state directory
	ID    string
	Do    string // "commit", "undo", "force", "owner", "discard", "drop", "collect", "resume", "recover", "naive"
	Paths []string

	// Plain says that the file system of the process can neither exchange two names, nor rename without replacing.
	Plain bool

	// Each lets objects be flushed one by one, as where others write much. False: whole file
	// systems are. (More than fsyncMost objects always are.)
	Each bool
}

// How a struck process ends if nobody kills it.
const (
	exitDone     = 0
	exitError    = 3 // an error that says that nothing was done
	exitUntidy   = 4 // a *CommitError
	exitUnusable = 5 // the session could not be opened
)

func crashHelper() int {
	unix.Umask(0o022)
	var d deed
	if err := json.Unmarshal([]byte(os.Getenv(crashEnv)), &d); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err := d.do()
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(os.Stderr, err)
	if ce := new(CommitError); errors.As(err, &ce) {
		return exitUntidy
	}
	if errors.Is(err, errUnusable) {
		return exitUnusable
	}
	return exitError
}

var errUnusable = errors.New("cannot be opened")

// do does the deed, and tells strike where it begins and ends.
func (d deed) do() error {
	if d.Plain && os.Getenv(crashEnv) != "" { // not in the test's own process
		if err := testenv.PlainRename(true); err != nil {
			return err
		}
	}
	if os.Getenv(crashEnv) != "" {
		tree.Unwritten = func() (uint64, bool) { return 0, !d.Each }
	}
	if d.Do == "recover" {
		if err := strike.Begin(); err != nil {
			return err
		}
		defer strike.End()
		return recoverState(d.State)
	}
	if d.Do == "fresh" || d.Do == "fresh, kept" {
		return d.fresh()
	}
	s, err := openSoon(d.State, d.ID)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnusable, err)
	}
	if d.Do == "collect" {
		if err := collectMore(s); err != nil {
			return err
		}
	}
	if err := strike.Begin(); err != nil {
		return err
	}
	defer strike.End()
	switch d.Do {
	case "collect":
		err = s.Collect(context.Background())
	case "resume":
		err = s.Resume(nil)
	case "commit":
		err = s.CommitWith(context.Background(), CommitOptions{Paths: d.Paths, AllowSpecial: true})
	case "undo":
		err = undoIt(s)
	case "force":
		err = s.Undo(context.Background(), UndoOptions{Force: true})
	case "owner":
		err = ownersEdits(s.Roots())
	case "discard":
		err = s.Erase()
	case "drop":
		err = dropIt(s, d.Paths...)
	case "naive":
		err = naive(s)
	default:
		err = fmt.Errorf("no such deed: %s", d.Do)
	}
	return errors.Join(err, s.Close())
}

// fresh makes a session over Paths, writes to it, commits it or not, and closes it.
func (d deed) fresh() error {
	if err := strike.Begin(); err != nil {
		return err
	}
	defer strike.End()
	s, err := Create(Options{Roots: d.Paths, Dir: d.State})
	if err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(s.Roots()[0].Upper, "f"), []byte("2\n"), 0o644); err == nil && d.Do == "fresh" {
		err = s.Commit(context.Background())
	}
	return errors.Join(err, s.Close())
}

// openSoon is Open. For a moment after a session was closed its lock may still be held: by a
// child process that was made before, and has not come to close what it must not inherit.
func openSoon(state, id string) (s *Session, err error) {
	testenv.Poll(testenv.Patience, func() bool {
		s, err = Open(state, id)
		return !errors.Is(err, ErrBusy)
	})
	return s, err
}

// mend does what mends, by turns: all of it does.
func (st *stand) mend(turn int) error {
	switch turn % 3 {
	case 0:
		return recoverState(st.state)
	case 1:
		s, err := openSoon(st.state, st.id)
		if err != nil {
			return err
		}
		return s.Close()
	default:
		for _, err := range List(st.state) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// recoverState mends what was interrupted.
func recoverState(state string) error {
	var errs []error
	for r, err := range Recover(state) {
		if err != nil {
			errs = append(errs, fmt.Errorf("recover %v: %w", r, err))
		}
	}
	return errors.Join(errs...)
}

func undoIt(s *Session) error                  { return s.Undo(context.Background(), UndoOptions{}) }
func dropIt(s *Session, paths ...string) error { return s.Drop(context.Background(), paths...) }

// naive is the control: a commit as one would write it in an afternoon. It is right as
// long as nothing happens.
func naive(s *Session) error {
	for c, err := range s.Changes() {
		if err != nil {
			return err
		}
		to := filepath.Join(c.Root, c.Path)
		if c.Kind == Deleted || c.Kind == TypeChanged {
			if err := os.RemoveAll(to); err != nil {
				return err
			}
		}
		switch {
		case c.Kind == Deleted:
		case c.Mode.IsDir():
			err = os.MkdirAll(to, 0o755)
		case c.Mode.IsRegular():
			var f, out *os.File
			if f, err = s.File(c, After); err != nil {
				return err
			}
			if out, err = os.Create(to); err == nil {
				_, err = io.Copy(out, f)
				err = errors.Join(err, out.Close())
			}
			f.Close()
		case c.Mode&fs.ModeSymlink != 0:
			var text string
			if text, err = s.Link(c, After); err == nil {
				_ = os.Remove(to)
				err = os.Symlink(text, to)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return s.Erase()
}

// command is the process that does a deed.
func (d deed) command(t testing.TB) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := exec.Command(exe)
	c.Env = append(os.Environ(), crashEnv+"="+string(text))
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

func (d deed) strikeIt(t testing.TB, p strike.Plan) (strike.Result, string) {
	t.Helper()
	c, out := d.command(t)
	r, err := strike.Run(c, p)
	if errors.Is(err, strike.ErrNotPermitted) {
		testenv.Skip(t, "ptrace", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

// An outcome is all that a deed may change.
type outcome struct {
	project []string // fingerprints of the projects
	upper   []string // of the upper directories, as far as there are any
	state   State
	changes []string // if it is Kept
}

// outcome looks at a stand. It opens the session, which may mend things: the projects are
// looked at before.
func (st *stand) outcome(t testing.TB) (o outcome, err error) {
	t.Helper()
	o.project = prints(t, st.projects[:]...)
	s, err := openSoon(st.state, st.id)
	if err != nil {
		return o, err
	}
	defer s.Close()
	o.state = s.State()
	for i, r := range s.Roots() {
		if _, err := os.Lstat(r.Upper); err != nil {
			continue
		}
		list, err := fingerprint(r.Upper)
		if err != nil {
			return o, err
		}
		for _, l := range list {
			o.upper = append(o.upper, fmt.Sprintf("%d:%s", i+1, l))
		}
	}
	list, err := s.log.List()
	if err != nil {
		return o, err
	}
	for _, n := range list {
		if !slices.Contains(s.meta.Done, n) {
			return o, fmt.Errorf("transaction %d is left", n)
		}
	}
	if o.state == Kept {
		for c, err := range s.Changes() {
			if err != nil {
				return o, err
			}
			o.changes = append(o.changes, fmt.Sprintf("%d %v %v %d %v", slices.Index(st.projects[:], c.Root), c, c.Mode, c.Size, c.Aspects))
		}
	}
	return o, nil
}

// differs says in what o is not as want; nil if it is.
func (o outcome) differs(want outcome) (diff []string) {
	if o.state != want.state {
		diff = append(diff, fmt.Sprintf("the session is %v, not %v", o.state, want.state))
	}
	for _, d := range difference(o.project, want.project) {
		diff = append(diff, "project: "+d)
	}
	for _, d := range difference(o.changes, want.changes) {
		diff = append(diff, "changes: "+d)
	}
	if want.state != Discarded { // what is thrown away need not be gone at once
		for _, d := range difference(o.upper, want.upper) {
			diff = append(diff, "session: "+d)
		}
	}
	return diff
}

// A trial is one kind of deed on one scene.
type trial struct {
	name    string
	scene   *scene
	base    string // where projects are made
	state   string // where state directories are made
	prepare []deed // done before, without a fault
	deed    deed
	again   []deed // after the deed was done; must lead back to the outcome before
	control bool   // it must be found broken; times are not compared
	apart   bool   // backups are copies: which names are one file is not compared
	anew    bool   // directories get the present time, and times of them are not compared
	brief   bool   // one goes on with it at every fifth point only

	before, after outcome

	seq struct {
		sync.Mutex
		n int
	}
}

// prepared is a stand on which the trial's deed can be done.
func (tr *trial) prepared(t testing.TB) *stand {
	t.Helper()
	tr.seq.Lock()
	tr.seq.n++
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(tr.name, " ", "-"), tr.seq.n)
	tr.seq.Unlock()
	dir := filepath.Join(tr.base, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	st := tr.scene.stand(t, dir, filepath.Join(tr.state, name+"-state"))
	for _, d := range tr.prepare {
		if err := st.deed(d).do(); err != nil {
			t.Fatalf("%s: prepare: %s: %v", tr.name, d.Do, err)
		}
	}
	return st
}

// deed is d for this stand: "1:" and "2:" before a path stand for the projects.
func (st *stand) deed(d deed) deed {
	d.State, d.ID = st.state, st.id
	d.Paths = slices.Clone(d.Paths)
	for i, p := range d.Paths {
		n, rest, _ := strings.Cut(p, ":")
		k, _ := strconv.Atoi(n)
		d.Paths[i] = filepath.Join(st.projects[k-1], rest)
	}
	return d
}

// look is the outcome, as far as the trial compares it.
func (tr *trial) look(t testing.TB, st *stand) (outcome, error) {
	t.Helper()
	o, err := st.outcome(t)
	for i, l := range o.project {
		if tr.control {
			o.project[i] = timeOf.ReplaceAllString(l, "")
		}
		if tr.apart {
			o.project[i] = namesOf.ReplaceAllString(l, "")
		}
	}
	for _, list := range [][]string{o.project, o.upper} {
		for i, l := range list {
			if tr.anew && directory.MatchString(l) {
				list[i] = timeOf.ReplaceAllString(l, "")
			}
		}
	}
	return o, err
}

// unnamed is an error that is about no file. If several calls fail, one that names a file can have several lines.
var unnamed = regexp.MustCompile(`(?m)^(all of it is done, [^:]*: )?(input/output error|no space left on device|disk quota exceeded|read-only file system)`)

var directory = regexp.MustCompile(`" 4[0-7]{4} [0-9]+:[0-9]+ at `)

var namesOf = regexp.MustCompile(` is "[^"]*", [0-9]+ names$`)

var timeOf = regexp.MustCompile(` at -?[0-9]+\.[0-9]{9}`)

// run does the deed without a fault and returns how many calls that takes.
func (tr *trial) run(t testing.TB, opens bool) int {
	t.Helper()
	st := tr.prepared(t)
	defer st.drop(t)
	var err error
	if tr.before, err = tr.look(t, st); err != nil {
		t.Fatal(err)
	}
	r, out := st.deed(tr.deed).strikeIt(t, strike.Plan{Opens: opens})
	if r.ExitCode != exitDone {
		t.Fatalf("%s: without a fault: %+v\n%s", tr.name, r, out)
	}
	if tr.after, err = tr.look(t, st); err != nil {
		t.Fatal(err)
	}
	if r.Calls == 0 || len(tr.after.differs(tr.before)) == 0 {
		t.Fatalf("%s: does nothing: %+v\n%s", tr.name, r, out)
	}
	return r.Calls
}

// A finding is a point at which something was left that must not be.
type finding struct {
	plan   strike.Plan
	call   string
	detail []string
}

func (f finding) String() string {
	const most = 12
	d := f.detail
	if len(d) > most {
		d = append(slices.Clone(d[:most]), fmt.Sprintf("and %d more", len(d)-most))
	}
	return fmt.Sprintf("%s: %s\n\t\t%s", planText(f.plan), f.call, strings.Join(d, "\n\t\t"))
}

func planText(p strike.Plan) string {
	s := fmt.Sprintf("call %d, %v", p.At, p.Do)
	if p.Do == strike.Fail {
		s += " with " + unix.ErrnoName(p.Errno)
		if p.Stay {
			s += " from then on"
		}
	}
	return s
}

// tally counts what was left.
type tally struct {
	sync.Mutex
	points, before, after int
	findings              []finding
}

func (tr *trial) point(t testing.TB, p strike.Plan, sum *tally) {
	t.Helper()
	st := tr.prepared(t)
	r, out := st.deed(tr.deed).strikeIt(t, p)
	// Whoever could not tidy up, and says so, leaves that to the next command.
	wasAfter, detail := tr.judge(t, st, p, r, out, r.Killed || p.Stay || r.ExitCode == exitUntidy)
	st.drop(t)
	sum.add(wasAfter, finding{p, r.Call.String(), detail})
}

func (sum *tally) add(after bool, f finding) {
	sum.Lock()
	defer sum.Unlock()
	sum.points++
	if after {
		sum.after++
	} else {
		sum.before++
	}
	if len(f.detail) > 0 {
		sum.findings = append(sum.findings, f)
	}
}

// judge says what is wrong with the state after a deed that was struck, and whether the deed was done. With mended, the
// next command may mend it first.
func (tr *trial) judge(t testing.TB, st *stand, p strike.Plan, r strike.Result, out string, mended bool) (after bool, detail []string) {
	t.Helper()
	note := func(format string, args ...any) { detail = append(detail, fmt.Sprintf(format, args...)) }
	if out != "" && !r.Killed {
		defer func() {
			if len(detail) > 0 {
				detail = append(detail, "it said: "+strings.TrimSpace(out[:min(len(out), 400)]))
			}
		}()
	}
	if mended {
		if err := st.mend(p.At); err != nil && !(tr.anew && errors.Is(err, tx.ErrAside)) { // the undo by force would have said so
			note("recovery: %v", err)
		}
	}
	got, err := tr.look(t, st)
	if err != nil {
		note("the session: %v", err)
		return false, detail
	}
	notBefore, notAfter := got.differs(tr.before), got.differs(tr.after)
	after = len(notAfter) == 0
	if after == (len(notBefore) == 0) {
		note("neither before nor after: from before %d, from after %d differences", len(notBefore), len(notAfter))
		detail = append(detail, nearer(notBefore, notAfter)...)
		return after, detail
	}
	if r.ExitCode >= 0 {
		switch {
		case r.ExitCode == exitDone && !after:
			note("it said that it was done, and it was not")
		case r.ExitCode == exitError && after && tr.deed.Do == "drop": // it is not known to be on the disk
		case r.ExitCode == exitError && after && tr.deed.Do == "discard":
			// What is thrown away could not all be removed: once more does it.
			if err := st.deed(tr.deed).do(); err != nil {
				note("discard afterwards: %v", err)
			}
		case r.ExitCode == exitError && after:
			note("it said that it failed, and it was done")
		case r.ExitCode != exitDone && !p.Stay && unnamed.MatchString(out) && slices.Contains([]string{"commit", "undo", "force"}, tr.deed.Do):
			note("it named no file")
		case r.ExitCode == exitUntidy && after && tr.deed.Do != "commit" && !p.Stay && !strings.Contains(out, "the commit was taken back"):
			note("it did not say that it was done")
		case r.ExitCode == exitUntidy && !after && !p.Stay:
			note("it said that something was applied, and nothing was")
		case r.ExitCode == exitUntidy && !after && strings.Contains(out, "in the project already"):
			note("it said what is in the project, and nothing is: %s", out)
		case r.ExitCode != exitDone && r.ExitCode != exitError && r.ExitCode != exitUntidy:
			note("exit status %d", r.ExitCode)
		}
	}
	if left := leftovers(st.state); len(left) > 0 && mended {
		note("left in the state directory: %q", left)
	}
	// Whatever it is now, one can go on with it.
	do := func(d deed, want outcome, what string) bool {
		if err := st.deed(d).do(); err != nil {
			note("%s afterwards: %v", d.Do, err)
			return false
		}
		got, err := tr.look(t, st)
		if err != nil {
			note("%s afterwards: the session: %v", d.Do, err)
			return false
		}
		if d := got.differs(want); len(d) > 0 {
			note("%s: %d differences", what, len(d))
			detail = append(detail, d...)
			return false
		}
		return true
	}
	if tr.brief && p.At%5 != 0 {
		return after, detail
	}
	if !after && !do(tr.deed, tr.after, "done again, it is not as it should be") {
		return after, detail
	}
	for _, d := range tr.again {
		do(d, tr.before, "taken back, it is not as it was")
	}
	return after, detail
}

func nearer(a, b []string) []string {
	if len(a) <= len(b) {
		return a
	}
	return b
}

// leftovers are what no state directory has when nothing is going on: marks of
// interrupted transactions, and temporary files.
func leftovers(state string) (left []string) {
	entries, _ := os.ReadDir(filepath.Join(state, "pending"))
	for _, e := range entries {
		left = append(left, "pending/"+e.Name())
	}
	sessions, _ := os.ReadDir(state)
	for _, e := range sessions {
		if strings.HasPrefix(e.Name(), ".") {
			left = append(left, e.Name())
		}
		inside, _ := os.ReadDir(filepath.Join(state, e.Name()))
		for _, f := range inside {
			// The next one to write the session's data removes what was left of that.
			if strings.HasPrefix(f.Name(), ".") && f.Name() != "."+store.MetaName+".new" || f.Name() == store.BookName || f.Name() == goneName {
				left = append(left, e.Name()+"/"+f.Name())
			}
		}
	}
	return left
}

// points returns which of n points are tried: all, or a given number, evenly spread. If it is one, that is in the
// middle, because after the first call there is little to mend.
func points(n, many int) (list []int) {
	switch {
	case testenv.RaceDetector:
		many = (many + 3) / 4
	case !testenv.Long():
		many = (many + 2) / 3
	}
	switch v := os.Getenv("NSRUN_CRASH_POINTS"); {
	case v == "all":
		many = n
	case v != "":
		many, _ = strconv.Atoi(v)
	}
	if many >= n || many <= 0 {
		many = n
	}
	for i := range many {
		list = append(list, 1+(2*i+1)*n/(2*many))
	}
	return list
}

// strikes are the ways in which something goes wrong.
var strikes = []struct {
	name string
	plan strike.Plan
}{
	{"kill", strike.Plan{Do: strike.Kill}},
	{"kill after", strike.Plan{Do: strike.KillAfter}},
	{"ENOSPC", strike.Plan{Do: strike.Fail, Errno: unix.ENOSPC}},
	{"EIO", strike.Plan{Do: strike.Fail, Errno: unix.EIO, Opens: true}},
	{"EDQUOT for good", strike.Plan{Do: strike.Fail, Errno: unix.EDQUOT, Stay: true}},
	{"ENOSPC for good", strike.Plan{Do: strike.Fail, Errno: unix.ENOSPC, Stay: true}},
	{"EROFS for good", strike.Plan{Do: strike.Fail, Errno: unix.EROFS, Stay: true}},
}

// each does something for each point, two at once.
func each(points []int, do func(k int)) {
	todo := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for k := range todo {
				do(k)
			}
		})
	}
	for _, k := range points {
		todo <- k
	}
	close(todo)
	wg.Wait()
}

// tryRecovery kills the deed at some points, and then strikes the process that mends it:
// at so many points of each.
func (tr *trial) tryRecovery(t *testing.T, deeds, many int, only ...string) {
	n := tr.run(t, false)
	mending := deed{Do: "recover", Plain: tr.deed.Plain, Each: tr.deed.Each}
	for _, way := range strikes {
		if len(only) > 0 && !slices.Contains(only, way.name) && os.Getenv("NSRUN_CRASH_POINTS") == "" {
			continue
		}
		t.Run(strings.ReplaceAll(way.name, " ", "-"), func(t *testing.T) {
			testenv.TakeTurns(t)
			sum := &tally{}
			each(points(n, deeds), func(k int) {
				killed := func() *stand {
					st := tr.prepared(t)
					st.deed(tr.deed).strikeIt(t, strike.Plan{At: k})
					return st
				}
				st := killed()
				whole, out := st.deed(mending).strikeIt(t, strike.Plan{Opens: way.plan.Opens})
				st.drop(t)
				if whole.ExitCode != exitDone {
					t.Errorf("killed at %d, recovery: %+v %s", k, whole, out)
				}
				for _, j := range points(whole.Calls, many) {
					p := way.plan
					p.At = j
					st := killed()
					r, out := st.deed(mending).strikeIt(t, p)
					r.ExitCode = -1 // what it says is not asked
					wasAfter, detail := tr.judge(t, st, p, r, out, true)
					st.drop(t)
					sum.add(wasAfter, finding{p, fmt.Sprintf("%v, of the recovery of what was killed at %d", r.Call, k), detail})
				}
			})
			sum.report(t, tr, n)
		})
	}
}

// tryAll tries points of the trial in all ways, many of each.
func (tr *trial) tryAll(t *testing.T, many int, only ...string) {
	if tr.control {
		many = max(many, 100) // some of them have to go well
	}
	calls := map[bool]int{false: tr.run(t, false)}
	for _, way := range strikes {
		if len(only) > 0 && !slices.Contains(only, way.name) && os.Getenv("NSRUN_CRASH_POINTS") == "" {
			continue
		}
		if !testenv.TurnOf(t.Name() + way.name) {
			continue
		}
		n, ok := calls[way.plan.Opens]
		if !ok {
			n = tr.run(t, way.plan.Opens)
			calls[way.plan.Opens] = n
		}
		t.Run(strings.ReplaceAll(way.name, " ", "-"), func(t *testing.T) {
			sum := &tally{}
			each(points(n, many), func(k int) {
				p := way.plan
				p.At = k
				tr.point(t, p, sum)
			})
			sum.report(t, tr, n)
		})
	}
}

func (sum *tally) report(t *testing.T, tr *trial, calls int) {
	t.Helper()
	t.Logf("%s: %d calls, %d points: %d as before, %d done, %d broken", tr.name, calls, sum.points, sum.before, sum.after, len(sum.findings))
	if tr.control {
		if len(sum.findings) < sum.points/3 || len(sum.findings) == sum.points {
			t.Errorf("%s: the control breaks at %d of %d points", tr.name, len(sum.findings), sum.points)
		}
		return
	}
	slices.SortFunc(sum.findings, func(a, b finding) int { return a.plan.At - b.plan.At })
	// The same mistake is reported once.
	like := map[string][]finding{}
	var kinds []string
	for _, f := range sum.findings {
		var k string
		for _, d := range f.detail {
			if !strings.HasPrefix(d, "it said: ") {
				k += numbers.ReplaceAllString(d, "N") + "\n"
			}
		}
		if like[k] == nil {
			kinds = append(kinds, k)
		}
		like[k] = append(like[k], f)
	}
	const most = 8
	for i, k := range kinds {
		if i == most {
			t.Errorf("and %d more kinds", len(kinds)-most)
			break
		}
		at := ""
		for _, f := range like[k] {
			at += " " + strconv.Itoa(f.plan.At)
		}
		t.Errorf("%d points:%s; %v", len(like[k]), at, like[k][0])
	}
}

// numbers are what differs from one run to the next.
var numbers = regexp.MustCompile(`[0-9]{8}T[0-9]{6}Z-[a-z2-7]{8}|json\.[a-z2-7]{8}|[0-9]+`)
