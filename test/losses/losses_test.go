//go:build linux

package losses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(workEnv) != "" {
		os.Exit(work())
	}
	testenv.MainWithPrograms(m, func(dir string) error {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "github.com/nsrun/nsrun/cmd/nsrun")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
		return nil
	})
}

// A world is a project, a copy of it in which the same is done natively, and nsrun's own directories.
type world struct {
	t                    *testing.T
	seed                 uint64
	dir, project, native string
	state                string // nsrun's, on another file system in some tries
	self                 string
	base                 view
	said                 []string // what happened
}

func newWorld(t *testing.T, seed uint64, base []step) *world {
	t.Helper()
	dir, err := os.MkdirTemp(testenv.Dir(t), "")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, seed: seed, dir: dir, project: filepath.Join(dir, "p"), native: filepath.Join(dir, "native")}
	if w.self, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "p/", "state/", "home/")
	w.state = filepath.Join(dir, "state")
	if seed%4 == 3 {
		if shm, err := os.MkdirTemp("/dev/shm", "nsrun-losses-"); err == nil { // where there is one
			w.state = shm
		}
	}
	t.Cleanup(w.close)
	w.run(w.project, script{base}, w.self)
	w.age(w.project)
	w.base = w.look(w.project)
	w.split(w.project)
	return w
}

// split copies a tree for the native run. Files with several names become several files, as in a session: see
// SECURITY.md.
func (w *world) split(from string) {
	w.t.Helper()
	if out, err := exec.Command("cp", "-a", "--no-preserve=links", from, w.native).CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// age gives everything a time that is long ago.
func (w *world) age(dir string) {
	w.t.Helper()
	n := int64(900_000_000)
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err == nil {
			n++
			ts := []unix.Timespec{{Sec: n, Nsec: 7}, {Sec: n, Nsec: 7}}
			err = unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, unix.AT_SYMLINK_NOFOLLOW)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// far reports whether nsrun keeps copies of what it replaces, because its directory is on another file system.
func (w *world) far() bool {
	var project, state unix.Stat_t
	return unix.Stat(w.project, &project) == nil && unix.Stat(w.state, &state) == nil && project.Dev != state.Dev
}

func (w *world) close() {
	for _, dir := range []string{w.dir, w.state} {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(p, 0o755)
			}
			return nil
		})
	}
	_ = os.RemoveAll(w.dir)
	_ = os.RemoveAll(w.state)
}

func (w *world) look(dir string) view {
	w.t.Helper()
	v, err := look(dir)
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	return v
}

// fail tells what is wrong, and how it came.
func (w *world) fail(stage string, lines ...string) {
	w.t.Helper()
	if len(lines) > 0 {
		w.t.Errorf("seed %d, %s:\n%s\nafter\n%s", w.seed, stage, strings.Join(lines, "\n"), strings.Join(w.said, "\n"))
	}
}

func (w *world) command(dir string, args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.dir, "home"), "XDG_STATE_HOME=" + w.state,
		"LC_ALL=C.UTF-8", workEnv + "=work", "GORACE=atexit_sleep_ms=0"}
	return c
}

// run has a script run, by a program or by what is before it on a command line.
func (w *world) run(dir string, s script, args ...string) (d done) {
	w.t.Helper()
	c := w.command(dir, args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = s.reader(), &stdout, &stderr
	err := c.Run()
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &d)
	}
	if err != nil {
		w.t.Fatalf("seed %d: %v: %v\n%s%s", w.seed, args, err, stderr.String(), strings.Join(w.said, "\n"))
	}
	return d
}

// inside has a script run in a session.
func (w *world) inside(s script, flags ...string) done {
	w.t.Helper()
	args := slices.Concat([]string{filepath.Join(testenv.Programs(), "nsrun"), "run", "--keep", "--env", workEnv, "--ro", w.self, "-C", w.project}, flags, []string{"--", w.self})
	if !slices.ContainsFunc(flags, func(f string) bool { return f == "--session" || f == "--on" }) {
		args = slices.Insert(args, 2, "--project", w.project)
	}
	return w.run(w.project, s, args...)
}

// try runs nsrun, which may fail.
func (w *world) try(args ...string) (string, error) {
	c := w.command(w.project, append([]string{filepath.Join(testenv.Programs(), "nsrun")}, args...)...)
	out, err := c.CombinedOutput()
	w.said = append(w.said, fmt.Sprintf("nsrun %q: %v\n\t%s", args, err, strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n\t")))
	return string(out), err
}

func (w *world) nsrun(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("seed %d: nsrun %q: %v\n%s\nafter\n%s", w.seed, args, err, out, strings.Join(w.said, "\n"))
	}
	return out
}

func (w *world) sessions() []string { return strings.Fields(w.nsrun("ls", "-q")) }

// wantProject compares the project with a view of it, in all that there is.
func (w *world) wantProject(stage string, want view) {
	w.t.Helper()
	now := w.look(w.project)
	lines := slices.Concat(same(now, want, nil), unlinked(now, want), tooLinked(now, want, nil))
	w.fail(stage, lines...)
}

// wantCommitted compares the project with what the session saw, and with the result of the native run.
func (w *world) wantCommitted(stage string, seen, native view) view {
	w.t.Helper()
	now := w.look(w.project)
	// A file with several names has one time, whatever the session saw of them.
	lines := same(now, seen, func(p string, got, _ object) bool { return got.Many })
	if native != nil {
		lines = slices.Concat(lines, unlinked(now, native), tooLinked(now, native, w.base))
	}
	w.fail(stage, lines...)
	return now
}

// wantSeen compares what came of a script natively and in a session.
func (w *world) wantSeen(got, want done, began time.Time) {
	w.t.Helper()
	var lines []string
	for i := range want.Log {
		if got.Log[i] != want.Log[i] {
			lines = append(lines, fmt.Sprintf("in the session %s\n\tnatively %s", got.Log[i], want.Log[i]))
		}
	}
	lines = append(lines, same(got.Seen, want.Seen, func(_ string, got, want object) bool {
		// A call that fails can change the time of a directory, and a FIFO's is not written down.
		return got.Mtime >= began.UnixNano() && (want.Mtime >= began.UnixNano() || got.Dir) || strings.HasPrefix(want.What, "10")
	})...)
	w.fail("in the session", lines...)
}

// seeds calls f for random worlds: NSRUN_SEEDS="7 1" is the seventh alone.
func seeds(t *testing.T, usual, long int, f func(t *testing.T, seed uint64)) {
	testenv.Leaks(t)
	first, n := uint64(0), testenv.Rounds(usual, long)
	if text := os.Getenv("NSRUN_SEEDS"); text != "" {
		if _, err := fmt.Sscan(text, &first, &n); err != nil {
			t.Fatal(err)
		}
	}
	bad := 0
	for seed := first; seed < first+uint64(n) && bad < 5; seed++ {
		if !t.Run("", func(t *testing.T) { f(t, seed) }) {
			bad++
		}
	}
}

// TestWhole: after a commit, the project is the same as after a native run; after an undo it is as before; after
// another commit it is again as after the first.
func TestWhole(t *testing.T) {
	testenv.NeedNamespaces(t)
	seeds(t, 4, 2000, func(t *testing.T, seed uint64) {
		a := newAuthor(seed, "old")
		w := newWorld(t, seed, a.base())
		a = newAuthor(seed, "new")
		s := script{a.steps(2 + a.IntN(40))}
		began := time.Now().Truncate(time.Second)
		native := w.run(w.native, s, w.self)
		got := w.inside(s, "-q", "--engine", []string{"overlay", "overlay", "overlay", "tmpfs", "copy"}[a.IntN(5)])
		w.said = append(w.said, got.Log...)
		w.wantProject("before a commit", w.base)
		w.wantSeen(got, native, began)
		if len(w.sessions()) == 0 { // nothing but times was changed
			w.fail("without changes", same(got.Seen, w.base, anyTime)...)
			return
		}
		w.nsrun("commit", "--allow-special")
		done := w.wantCommitted("committed", got.Seen, native.Seen)
		w.nsrun("undo")
		w.wantProject("undone", w.base)
		w.nsrun("commit", "--allow-special")
		w.wantProject("committed again", done)
		w.nsrun("undo")
		w.wantProject("undone again", w.base)
		w.nsrun("discard")
		w.wantProject("discarded", w.base)
		w.nsrun("undo")
		w.nsrun("commit", "--allow-special")
		w.wantProject("committed at last", done)
		w.nsrun("undo")
		w.wantProject("undone at last", w.base)
	})
}

// choose is a random path of one of the views.
func (a *author) choose(views ...view) string {
	v := views[a.IntN(len(views))]
	return slices.Sorted(maps.Keys(v))[a.IntN(len(v))]
}

func anyTime(string, object, object) bool { return true }

// session returns a world in which a command took fewer than most+2 steps in a session, or nil if they changed only
// times.
func session(t *testing.T, seed uint64, most int, tame bool) (w *world, a *author, got done) {
	t.Helper()
	w = newWorld(t, seed, newAuthor(seed, "old").base())
	a = newAuthor(seed, "new")
	a.tame = tame
	got = w.inside(script{a.steps(2 + a.IntN(most))}, "-q")
	w.said = append(w.said, got.Log...)
	if len(w.sessions()) == 0 {
		return nil, nil, got
	}
	return w, a, got
}

// TestParts: each part of a session is committed as a whole or not at all. All of it is committed in the end, and each
// commit can be undone.
func TestParts(t *testing.T) {
	seeds(t, 3, 1000, func(t *testing.T, seed uint64) {
		w, a, got := session(t, seed, 40, false)
		if w == nil {
			return
		}
		states := []view{w.base}
		part := func(args ...string) {
			before := states[len(states)-1]
			if _, err := w.try(append([]string{"commit", "--allow-special", "last"}, args...)...); err != nil {
				w.wantProject("refused", before)
				return
			}
			now := w.look(w.project)
			states = append(states, now)
			var lines []string
			for _, p := range slices.Sorted(maps.Keys(now)) {
				if what := now[p].What; what != got.Seen[p].What && what != before[p].What {
					lines = append(lines, fmt.Sprintf("%s is %s, was %s, the session has %s", p, what, before[p].What, got.Seen[p].What))
				}
			}
			for p := range before {
				if _, ok := now[p]; !ok && got.Seen[p].What != "" {
					lines = append(lines, fmt.Sprintf("%s is missing, was %s, the session has %s", p, before[p].What, got.Seen[p].What))
				}
			}
			w.fail("a part", lines...)
		}
		for range a.IntN(5) {
			if a.IntN(6) == 0 {
				if _, err := w.try("undo"); err == nil && len(states) > 1 {
					states = states[:len(states)-1]
				}
				if !w.far() {
					w.wantProject("an undone part", states[len(states)-1])
				}
				continue
			}
			part(a.choose(w.base, got.Seen), a.choose(w.base, got.Seen))
		}
		part()
		last := states[len(states)-1]
		w.fail("all parts", same(last, got.Seen, anyTime)...)
		for i := len(states) - 2; i >= 0; i-- {
			w.nsrun("undo")
			if !w.far() {
				w.wantProject(fmt.Sprint("undone, ", i), states[i])
			} else { // copies are put back, and what one commit replaced is linked to nothing that another one did
				w.fail(fmt.Sprint("undone, ", i), same(w.look(w.project), states[i], nil)...)
			}
		}
		w.nsrun("commit", "--allow-special", "last")
		w.fail("all at last", same(w.look(w.project), got.Seen, anyTime)...)
	})
}

// TestOwner: the project's owner changes files between a run and its commit. Neither these changes nor those of the
// session are lost.
func TestOwner(t *testing.T) {
	seeds(t, 3, 1000, func(t *testing.T, seed uint64) {
		w, a, got := session(t, seed, 20, true)
		if w == nil {
			return
		}
		o := newAuthor(seed, "owner")
		o.tame = true
		his := w.run(w.project, script{o.steps(1 + o.IntN(6))}, w.self)
		w.said = append(append(w.said, "the owner:"), his.Log...)
		host := w.look(w.project)
		choices := []string{"", "--theirs", "--ours", "--merge"}
		choice := ""
		for range 3 {
			args := []string{"commit", "--allow-special", "last"}
			if choice != "" {
				args = append(args, choice)
			}
			if _, err := w.try(args...); err != nil {
				w.wantProject("a conflict", host)
				choice = choices[1+a.IntN(3)]
				continue
			}
			now := w.look(w.project)
			var lines []string
			needed := func(dir string) bool { // he removed or moved a directory in which the session made something new
				return now[dir].Dir && host[dir].What == "" && slices.ContainsFunc(slices.Collect(maps.Keys(got.Seen)), func(p string) bool {
					return strings.HasPrefix(p, dir+"/") && w.base[p].What == "" && now[p].What == got.Seen[p].What
				})
			}
			say := func(p, what string) {
				lines = append(lines, fmt.Sprintf("%s: %s: it is %s\n\tthe project had %s\n\tthe owner has %s\n\tthe session has %s", p, what, now[p].What, w.base[p].What, host[p].What, got.Seen[p].What))
			}
			for _, v := range []view{now, host, got.Seen, w.base} {
				for p := range v {
					is, was, hers, his := now[p].What, w.base[p].What, got.Seen[p].What, host[p].What
					switch {
					case hers == his && is != hers:
						say(p, "both have the same")
					case hers == was && is != his && choice == "" && !needed(p):
						say(p, "only the owner changed it")
					case his == was && is != hers && choice == "":
						say(p, "only the session changed it")
					case his != was && hers != was && hers != his && choice == "":
						say(p, "both changed it")
					case is != hers && is != his && choice != "--merge":
						say(p, "nobody made that")
					}
				}
			}
			slices.Sort(lines)
			w.fail("committed "+choice, slices.Compact(lines)...)
			w.nsrun("undo")
			w.wantProject("undone "+choice, host)
			choice = choices[a.IntN(4)]
		}
	})
}

// TestSeveral: commands in one session, and sessions on each other, end as commands one after the other end natively.
func TestSeveral(t *testing.T) {
	seeds(t, 3, 1000, func(t *testing.T, seed uint64) {
		a := newAuthor(seed, "old")
		w := newWorld(t, seed, a.base())
		a = newAuthor(seed, "new")
		began := time.Now().Truncate(time.Second)
		var ids []string // the session of each command
		var seen []done
		for i := range 2 + a.IntN(2) {
			s := script{a.steps(2 + a.IntN(20))}
			flags := []string{"-q"}
			if i > 0 && len(ids) > 0 {
				flags = append(flags, []string{"--session", "--on"}[a.IntN(2)], ids[len(ids)-1])
			}
			if len(flags) > 1 && flags[1] == "--on" { // what has several names had them before this session
				from := w.native
				w.native += "+"
				w.split(from)
			}
			native := w.run(w.native, s, w.self)
			w.said = append(w.said, fmt.Sprint(flags))
			got := w.inside(s, flags...)
			w.said = append(w.said, got.Log...)
			w.wantProject("before a commit", w.base)
			w.wantSeen(got, native, began)
			list := w.sessions()
			seen = append(seen, got)
			if len(list) == 0 {
				return // only times
			}
			ids = append(ids, list[0])
			if len(ids) > 1 && len(flags) > 1 && flags[1] == "--on" && ids[len(ids)-1] == ids[len(ids)-2] {
				return // only times
			}
		}
		states := []view{w.base}
		for i, id := range ids {
			if i+1 < len(ids) && ids[i+1] == id {
				continue // not before the session has ended
			}
			if _, err := w.try("commit", "--allow-special", id); err != nil {
				w.fail("a commit", err.Error())
				return
			}
			states = append(states, w.look(w.project))
			w.fail("committed", same(states[len(states)-1], seen[i].Seen, func(_ string, got, _ object) bool { return got.Many || len(states) > 2 })...)
		}
		for i := len(states) - 2; i >= 0; i-- {
			if _, err := w.try("undo"); err != nil && w.far() && i < len(states)-2 {
				// A copy of what the first session made was put back. For that session's undo, it is
				// another file.
				w.wantProject("refused", states[i+1])
				return
			}
			if stage := fmt.Sprint("undone, ", i); !w.far() {
				w.wantProject(stage, states[i])
			} else { // as in TestParts
				w.fail(stage, same(w.look(w.project), states[i], nil)...)
			}
		}
	})
}

// killed runs nsrun, and kills it after a while, unless it has ended.
func (w *world) killed(after time.Duration, stdin io.Reader, args ...string) {
	w.t.Helper()
	c := w.command(w.project, append([]string{filepath.Join(testenv.Programs(), "nsrun")}, args...)...)
	var out bytes.Buffer
	c.Stdin, c.Stderr = stdin, &out
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = c.Process.Kill() })
	err := c.Wait()
	timer.Stop()
	killed := err != nil && c.ProcessState.ExitCode() < 0
	w.said = append(w.said, fmt.Sprintf("nsrun %q for %v: %v %s", args, after, err, out.String()))
	if err != nil && !killed {
		w.fail("not killed", err.Error())
	}
}

// TestKilled: whenever nsrun is killed, the next nsrun finds the project as before the command or as after it.
func TestKilled(t *testing.T) {
	seeds(t, 3, 1000, func(t *testing.T, seed uint64) {
		a := newAuthor(seed, "old")
		w := newWorld(t, seed, a.base())
		a = newAuthor(seed, "new")
		s := script{a.steps(2 + a.IntN(60))}
		wait := func() time.Duration { return time.Duration(a.IntN(15_000)) * time.Microsecond }
		if a.IntN(2) == 0 {
			w.killed(wait()*4, s.reader(), "run", "-q", "--keep", "--env", workEnv, "--ro", w.self, "--project", w.project, "--", w.self)
			w.wantProject("a killed run", w.base)
		} else {
			got := w.inside(s, "-q")
			w.said = append(w.said, got.Log...)
		}
		if len(w.sessions()) == 0 {
			return
		}
		w.wantProject("before a commit", w.base)
		var done view
		committed := false
		for range 12 {
			if committed {
				w.killed(wait(), nil, "undo")
			} else {
				w.killed(wait(), nil, "commit", "--allow-special", "last")
			}
			if committed = strings.Contains(w.nsrun("ls"), "  committed  "); !committed {
				w.wantProject("not committed", w.base)
			} else if done == nil {
				done = w.look(w.project)
			} else {
				w.wantProject("committed", done)
			}
		}
		if committed {
			w.nsrun("undo")
			w.wantProject("undone", w.base)
		}
		w.nsrun("commit", "--allow-special", "last")
		if done != nil {
			w.wantProject("committed", done)
		}
		w.nsrun("undo")
		w.wantProject("undone at last", w.base)
	})
}

// words are all texts of files in directories, by their beginning, whoever wrote them.
func (w *world) words(begin string, dirs ...string) map[string]bool {
	w.t.Helper()
	found := map[string]bool{}
	exp := regexp.MustCompile("<" + begin + "[0-9x]+>")
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				b, _ := os.ReadFile(p)
				for _, word := range exp.FindAll(b, -1) {
					found[string(word)] = true
				}
			}
			return nil
		})
	}
	return found
}

// kept has the newer versions that an undo moved aside.
func (w *world) kept() []string {
	list, _ := filepath.Glob(filepath.Join(w.state, "nsrun/sessions/*/tx/kept-*"))
	return list
}

// TestSince: what the owner does after a commit is not lost by an undo, be it forced, or a new commit.
func TestSince(t *testing.T) {
	seeds(t, 3, 1000, func(t *testing.T, seed uint64) {
		w, _, _ := session(t, seed, 30, false)
		if w == nil {
			return
		}
		w.nsrun("commit", "--allow-special", "last")
		done := w.look(w.project)
		o := newAuthor(seed, "owner")
		o.tame = true
		s := script{o.steps(1 + o.IntN(6))}
		if o.IntN(2) == 0 { // he brings the times back, too
			for _, p := range slices.Sorted(maps.Keys(done)) {
				if o.IntN(2) == 0 {
					s[0] = append(s[0], step{Do: "stamp", A: p, N: done[p].Mtime})
				}
			}
		}
		his := w.run(w.project, s, w.self)
		w.said = append(append(w.said, "the owner:"), his.Log...)
		host := w.look(w.project)
		wrote := w.words("owner", w.project)
		if _, err := w.try("undo"); err != nil {
			w.wantProject("refused", host)
			if _, err := w.try("undo", "--force"); err != nil && len(w.kept()) == 0 {
				w.fail("forced", err.Error())
			}
		} else {
			now := w.look(w.project)
			byName := func(p string) bool { // what has several names has what he wrote by another one
				for q, o := range now {
					if q != p && o.Many && o.Ino == now[p].Ino && o.What == now[p].What && host[q].What == o.What {
						return true
					}
				}
				return false
			}
			var lines []string
			for _, v := range []view{now, host, w.base} {
				for p := range v {
					is, was, his := now[p].What, done[p].What, host[p].What
					if byName(p) {
						continue
					}
					if is != w.base[p].What && is != his || his != was && is != his {
						lines = append(lines, fmt.Sprintf("%s: is %s\n\twas %s\n\tthe commit made %s\n\tthe owner has %s", p, is, w.base[p].What, was, his))
					}
				}
			}
			slices.Sort(lines)
			w.fail("undone", slices.Compact(lines)...)
		}
		left := w.words("owner", w.project, w.state)
		for word := range wrote {
			if !left[word] {
				w.fail("undone", word+" is lost")
			}
		}
		now := w.look(w.project)
		for p, o := range w.base {
			// He may have written a file with several names by another name. If he has no directory, it is
			// kept aside.
			parent := host[filepath.Dir(p)]
			if host[p].What == done[p].What && now[p].What != o.What && !o.Dir && !o.Many && (parent.Dir || parent.What == "") {
				w.fail("undone", fmt.Sprintf("%s is %s, was %s", p, now[p].What, o.What))
			}
		}
	})
}

// TestAtOnce: several processes of a command write at once; what the last one saw is committed. What the owner writes
// to the project during commits and undos is somewhere afterwards.
func TestAtOnce(t *testing.T) {
	testenv.NeedLong(t) // what it finds depends on who is faster
	seeds(t, 3, 500, func(t *testing.T, seed uint64) {
		a := newAuthor(seed, "old")
		w := newWorld(t, seed, a.base())
		var s script
		for i := range 3 {
			a = newAuthor(seed, []string{"one", "more", "third"}[i])
			s = append(s, a.steps(10+a.IntN(60)))
		}
		got := w.inside(s, "-q")
		w.wantProject("before a commit", w.base)
		if len(w.sessions()) == 0 {
			return
		}
		w.nsrun("commit", "--allow-special", "last")
		w.wantCommitted("committed", got.Seen, nil)
		w.nsrun("undo")
		w.wantProject("undone", w.base)
		aliases := map[string]bool{} // who writes to these writes to something else
		for _, v := range []view{w.base, got.Seen} {
			for p, o := range v {
				aliases[p] = aliases[p] || strings.HasPrefix(o.What, "12")
			}
		}
		for round := range 4 {
			o := newAuthor(seed, "owner"+strings.Repeat("x", round+1)) // whose length tells them apart
			var steps []step
			for range 150 {
				steps = append(steps, step{Do: []string{"append", "append", "save"}[o.IntN(3)], A: o.file(), Text: o.text()})
			}
			wrote := make(chan []string)
			go func() {
				c := w.command(w.project, w.self)
				c.Stdin = script{steps}.reader()
				out, _ := c.Output()
				var d done
				_ = json.Unmarshal(out, &d)
				wrote <- d.Log
			}()
			for range 3 {
				_, _ = w.try("commit", "--allow-special", "last", []string{"--theirs", "--ours"}[o.IntN(2)])
				_, _ = w.try("undo")
			}
			log := <-wrote
			saves := map[string]string{} // by file, the last one that replaced what was there
			for i, line := range log {
				if steps[i].Do == "save" && strings.HasSuffix(line, ": ok") {
					saves[steps[i].A] = steps[i].Text
				}
			}
			_, _ = w.try("undo", "--force")
			left := w.words("owner", w.project, w.state)
			for i := len(steps) - 1; i >= 0 && i < len(log); i-- {
				x := steps[i]
				if x.Do == "append" && strings.HasSuffix(log[i], ": ok") && !left[x.Text] {
					replaced := slices.ContainsFunc(steps[i:], func(y step) bool { return y.Do == "save" && y.A == x.A })
					if !replaced && !aliases[x.A] {
						w.fail("at once", x.Text+" is lost, "+log[i])
					}
				}
			}
			for p, text := range saves {
				if !left[text] {
					w.fail("at once", text+" is lost, saved to "+p)
				}
			}
		}
	})
}

// TestCarried: while one process renames directories of the project, what others write by paths in them is not lost.
func TestCarried(t *testing.T) {
	testenv.NeedLong(t) // what it finds depends on who is faster
	seeds(t, 3, 500, func(t *testing.T, seed uint64) {
		a := newAuthor(seed, "old")
		var base []step
		dirs := []string{"d", "d/e", "d/e/g", "h"}
		for _, dir := range dirs {
			base = append(base, step{Do: "mkdir", A: dir})
			for _, name := range []string{"log", "b", "c", "l", "m"} {
				base = append(base, step{Do: "create", A: filepath.Join(dir, name), Text: a.text()})
			}
		}
		w := newWorld(t, seed, base)
		var renames []step
		for range 40 + a.IntN(60) {
			from, to := a.IntN(4), a.IntN(4)
			names := [][2]string{{"d", "x"}, {"x", "d"}, {"d/e", "h/e"}, {"h/e", "d/e"}, {"x/e", "h/e"}, {"h", "y"}, {"y", "h"}, {"d/e/g", "g"}, {"g", "d/e/g"}}
			n := names[(from*4+to)%len(names)]
			renames = append(renames, step{Do: "rename", A: n[0], B: n[1], N: []int64{0, 1, 2}[a.IntN(3)]})
		}
		s := script{renames}
		for i := range 2 {
			o := newAuthor(seed, "writer"+strings.Repeat("x", i+1))
			var steps []step
			for k := range 300 {
				dir := []string{"d", "x", "d/e", "x/e", "h/e", "h", "y", "d/e/g", "g", "y/e"}[o.IntN(10)]
				switch o.IntN(3) {
				case 0:
					steps = append(steps, step{Do: "create", A: fmt.Sprint(dir, "/n", i, "-", k), Text: o.text()})
				case 1:
					steps = append(steps, step{Do: "append", A: dir + "/log", Text: o.text()})
				default:
					steps = append(steps, step{Do: "save", A: fmt.Sprint(dir, "/s", i, "-", k), Text: o.text()})
				}
			}
			s = append(s, steps)
		}
		got := w.inside(s, "-q")
		w.said = append(w.said, got.Log...)
		check := func(stage string) {
			left := w.words("writer", w.project)
			var lines []string
			for i, steps := range s[1:] {
				for k, line := range got.Logs[i] {
					if strings.HasSuffix(line, ": ok") && !left[steps[k].Text] {
						lines = append(lines, line+", and is lost")
					}
				}
			}
			w.fail(stage, lines...)
		}
		w.nsrun("commit", "--allow-special", "last")
		w.wantCommitted("committed", got.Seen, nil)
		check("committed")
		w.nsrun("undo")
		w.wantProject("undone", w.base)
	})
}
