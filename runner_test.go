//go:build linux

package nsrun_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestAfter: what becomes of a command's writes.
func TestAfter(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const write = "echo 2 >new; echo 2 >old; exit 3"
	t.Run("keep", func(t *testing.T) {
		p := filepath.Join(place(t, "old: 1"), "p")
		r := nsrun.NewRunner(nsrun.Config{Project: p})
		res, err := r.Run(t.Context(), nsrun.Request{Command: write})
		if err != nil || res.State != overlay.Kept || res.Session == "" || res.Report() != "A new\nM old\n" || res.ExitCode != 3 {
			t.Errorf("%+v, %v", res, err)
		}
		if got := sh(t, r, "cat new old; rm new"); got != "2\n2\n" {
			t.Errorf("the next command sees %q", got)
		}
		if content(p, "new") != "-" || content(p, "old") != "1" {
			t.Error("the project was changed")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err == nil {
			t.Error("a closed Runner runs a command")
		}
		// Another one goes on with it.
		again := runner(t, nsrun.Config{Session: res.Session})
		if got := sh(t, again, "cat old; ls"); got != "2\nold\n" {
			t.Errorf("resumed: %q", got)
		}
		if err := again.Commit(t.Context(), overlay.CommitOptions{}); err != nil || content(p, "old") != "2\n" {
			t.Errorf("%v, %q", err, content(p, "old"))
		}
	})
	t.Run("keep, given up", func(t *testing.T) {
		r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p")})
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := r.Run(ctx, nsrun.Request{Command: "echo x; sleep 1000", Stdout: writer(cancel)}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := sh(t, r, "echo x"); got != "x\n" {
			t.Errorf("the next command: %q", got)
		}
	})
	t.Run("what was kept is not discarded", func(t *testing.T) {
		p := filepath.Join(place(t), "p")
		r := nsrun.NewRunner(nsrun.Config{Project: p})
		res, err := r.Run(t.Context(), nsrun.Request{Command: "touch f"})
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []nsrun.Config{{After: nsrun.Discard}, {Preset: nsrun.TestPreset}} {
			c.Session = res.Session
			if _, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "true"}); err == nil || sessions(t) != 1 {
				t.Errorf("%v, %d sessions", err, sessions(t))
			}
		}
	})
	t.Run("keep nothing", func(t *testing.T) {
		r := nsrun.NewRunner(nsrun.Config{Project: filepath.Join(place(t), "p")})
		sh(t, r, "true")
		if err := r.Close(); err != nil || sessions(t) != 0 {
			t.Errorf("%v, %d sessions", err, sessions(t))
		}
	})
	t.Run("keep, then discard", func(t *testing.T) {
		p := filepath.Join(place(t, "old: 1"), "p")
		r := runner(t, nsrun.Config{Project: p})
		sh(t, r, write)
		if err := r.Discard(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sh(t, r, "cat old; ls"); got != "1old\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("commit", func(t *testing.T) {
		p := filepath.Join(place(t, "old: 1"), "p")
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit})
		res, err := r.Run(t.Context(), nsrun.Request{Command: write})
		if err != nil || res.State != overlay.Committed || content(p, "new") != "2\n" {
			t.Errorf("%+v, %v", res, err)
		}
		if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err != nil || res.Session != "" || sessions(t) != 1 {
			t.Errorf("%+v, %v, %d sessions", res, err, sessions(t))
		}
	})
	t.Run("conflict", func(t *testing.T) {
		p := filepath.Join(place(t, "old: 1"), "p")
		r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit})
		x, err := r.Start(t.Context(), nsrun.Request{Command: "echo session >old; read x", Stdin: waitFor(func() bool {
			return os.WriteFile(filepath.Join(p, "old"), []byte("somebody else"), 0o644) == nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		res, err := x.Wait()
		if _, ok := errors.AsType[*overlay.ConflictError](err); !ok || res.State != overlay.Kept || !strings.Contains(res.String(), "ERROR: Conflict: old ") {
			t.Errorf("%s, %v", res, err)
		}
		if again, err2 := x.Wait(); err2 != err || again.State != res.State {
			t.Errorf("again: %v", err2)
		}
		if content(p, "old") != "somebody else" || sessions(t) != 1 {
			t.Error("it was overwritten")
		}
	})
	for name, c := range map[string]nsrun.Config{"discard": {After: nsrun.Discard}, "test": {Preset: nsrun.TestPreset, After: nsrun.Commit}} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(place(t, "old: 1"), "p")
			c.Project = p
			r := runner(t, c)
			res, err := r.Run(t.Context(), nsrun.Request{Command: write})
			if err != nil || res.State != overlay.Discarded || len(res.Changes) != 2 || content(p, "new") != "-" || sessions(t) != 0 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	t.Run("hold", func(t *testing.T) {
		p := filepath.Join(place(t, "old: 1"), "p")
		x, err := runner(t, nsrun.Config{Project: p, After: nsrun.Hold}).Start(t.Context(), nsrun.Request{Command: write})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := x.Collect(t.Context()); err != nil || len(x.Changes()) != 2 {
			t.Errorf("%v, %v", x.Changes(), err)
		}
		if err := x.Session().Remove(); err != nil {
			t.Error(err)
		}
	})
}

// waitFor is a reader that does something when it is read, and then has a line.
type waitFor func() bool

func (f waitFor) Read(p []byte) (int, error) {
	if !f() {
		return 0, io.EOF
	}
	return copy(p, "\n"), io.EOF
}

// TestOutput: limits, streaming, order.
func TestOutput(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), MaxOutput: 100})
	var out, errs bytes.Buffer
	res, err := r.Run(t.Context(), nsrun.Request{Command: "seq 1 1000; seq 1 1000 | sed s/^/e/ >&2", Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Stdout.String(); !strings.HasPrefix(got, "1\n2\n") || !strings.HasSuffix(got, "\n999\n1000\n") || !strings.Contains(got, " bytes of output were cut here]\n") || len(got) > 200 {
		t.Errorf("got %q", got)
	}
	if strings.Count(out.String(), "\n") != 1000 || strings.Count(errs.String(), "e") != 1000 {
		t.Errorf("streamed %d and %d bytes", out.Len(), errs.Len())
	}
	const both = "for i in 1 2 3; do echo out$i; echo err$i >&2; done"
	if got := output(t, r, nsrun.Request{Command: both, Merge: true}); got != "out1\nerr1\nout2\nerr2\nout3\nerr3\n" {
		t.Errorf("merged %q", got)
	}
	if got := sh(t, r, both); got != "out1\nout2\nout3\nerr1\nerr2\nerr3\n" {
		t.Errorf("apart %q", got)
	}
	if got := output(t, r, nsrun.Request{Command: "cat; echo $X", Stdin: strings.NewReader("in\n"), Env: []string{"X=y z"}}); got != "in\ny z\n" {
		t.Errorf("got %q", got)
	}
	// Input that nobody reads, or that never comes.
	block, w := io.Pipe()
	defer w.Close()
	if got := output(t, r, nsrun.Request{Command: "echo x", Stdin: block}); got != "x\n" {
		t.Errorf("got %q", got)
	}
	if got := output(t, r, nsrun.Request{Command: "echo x", Stdin: strings.NewReader(strings.Repeat("x", 1<<20))}); got != "x\n" {
		t.Errorf("got %q", got)
	}
}

// TestEnds: a command's time, the caller's patience, and what it leaves running.
func TestEnds(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	r := runner(t, nsrun.Config{Project: p, Timeout: time.Hour})
	// A server in the background that keeps standard output open ends with its shell.
	began := time.Now()
	if got := sh(t, r, "sleep 1000 & (trap '' TERM HUP; sleep 1000) & echo started"); got != "started\n" || time.Since(began) > testenv.Patience {
		t.Errorf("%q after %s", got, time.Since(began))
	}
	// run ends a command when it has begun, however slow this machine is.
	run := func(r *nsrun.Runner, command string) (res nsrun.Result, limit time.Duration, err error) {
		for limit = 250 * time.Millisecond; limit < time.Hour; limit *= 2 {
			res, err = r.Run(t.Context(), nsrun.Request{Command: command, Timeout: limit})
			if strings.HasPrefix(res.String(), "begun\n") {
				break
			}
		}
		return res, limit, err
	}
	res, limit, err := run(r, "echo x >f; echo begun; sleep 1000")
	if want := fmt.Sprintf("begun\nERROR: Timed out after %s: the command was ended\n", limit); err != nil || !res.TimedOut || res.String() != want {
		t.Errorf("%q, %v, want %q", res, err, want)
	}
	if res.Report() != "A f\n" {
		t.Errorf("changes %q", res.Report())
	}
	if res, err := r.Run(t.Context(), nsrun.Request{Command: "true", Timeout: 1}); !res.TimedOut || res.Started || err == nil || res.String() != "ERROR: Timed out after 1ns: the command was ended\n" {
		t.Errorf("%q, %v", res, err)
	}
	// One that does not want to.
	short := runner(t, nsrun.Config{Project: p, Grace: 100 * time.Millisecond})
	if res, _, err := run(short, "trap '' TERM; echo begun; while :; do sleep 1; done"); err != nil || !res.TimedOut {
		t.Errorf("%q, %v", res, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	began = time.Now()
	x, err := r.Start(ctx, nsrun.Request{Command: "echo x; sleep 1000", Stdout: writer(func() { cancel() })})
	if err != nil {
		t.Fatal(err)
	}
	res, err = x.Wait()
	if !errors.Is(err, context.Canceled) || res.TimedOut || res.String() != "x\nexit code: 143 (terminated)\nERROR: Context canceled\n" || time.Since(began) > testenv.Patience {
		t.Errorf("%q, %v", res, err)
	}
	if _, err := r.Run(ctx, nsrun.Request{Command: "touch ran"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type writer func()

func (f writer) Write(p []byte) (int, error) { f(); return len(p), nil }

// TestScripts: a script without "#!" is executed as a shell does it, by its path and through PATH. What is no text is
// not.
func TestScripts(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "script: echo $0-$1\n", "empty", "later: \n\x00", "junk: \x00asm\n", "foreign: \x7fELF\x01\x01\x01\x00")
	p := filepath.Join(dir, "p")
	for _, name := range []string{"script", "empty", "later", "junk", "foreign"} {
		if err := os.Chmod(filepath.Join(p, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []nsrun.SandboxMode{nsrun.SandboxRequired, nsrun.SandboxDisabled} {
		r := runner(t, nsrun.Config{Project: p, Sandbox: mode, Env: []string{"PATH=" + p + ":" + os.Getenv("PATH")}})
		for name, want := range map[string]string{"./script": "./script-a b\n", "script": p + "/script-a b\n", "./empty": "", "./later": "", "./junk": "ENOEXEC", "./foreign": "ENOEXEC"} {
			if name == "script" && mode == nsrun.SandboxDisabled {
				continue // it is looked for in the caller's PATH
			}
			res, err := r.Run(t.Context(), nsrun.Request{Args: []string{name, "a b"}})
			got := res.Stdout.String()
			if errors.Is(err, unix.ENOEXEC) {
				got = "ENOEXEC"
			} else if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%v: %s: %q, want %q", mode, name, got, want)
			}
		}
	}
}

// TestPty: a program that wants a terminal gets one of its own.
func TestPty(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if !isThere("/usr/bin/script") {
		testenv.Skip(t, "script", "it is not installed")
	}
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p")})
	if got := sh(t, r, "script -qec 'test -t 0 && tty' /dev/null"); got != "/dev/pts/0\n" {
		t.Errorf("got %q", got)
	}
}

// TestAtOnce: many at a time, of Runners with different Configs, and of one Runner, see
// their own and nothing else. Nothing of this program changes.
func TestAtOnce(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	wd, _ := os.Getwd()
	env := fmt.Sprint(os.Environ())
	rounds := testenv.Fewer(4)
	var group sync.WaitGroup
	shared := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Commit})
	kept := runner(t, nsrun.Config{Project: filepath.Join(dir, "p")})
	for i := range 16 {
		testenv.Tree(t, dir, fmt.Sprintf("p%d/", i))
		group.Go(func() {
			p := filepath.Join(dir, fmt.Sprint("p", i))
			own := nsrun.NewRunner(nsrun.Config{Project: p, Env: []string{fmt.Sprint("N=", i)}, After: nsrun.After(i % 3)})
			for n := range rounds {
				want := fmt.Sprintf("%d %d\n", i, n)
				if got := sh(t, own, fmt.Sprintf("echo $N %d >f; cat f", n)); got != want {
					t.Errorf("%d: %q", i, got)
				}
				if got := sh(t, shared, fmt.Sprintf("echo %d %d >f%d; cat f%d", i, n, i, i)); got != want {
					t.Errorf("shared %d: %q", i, got)
				}
				if got := sh(t, kept, fmt.Sprintf("test ! -e lock || echo together; touch lock; echo %d %d >f%d; cat f%d; rm lock", i, n, i, i)); got != want {
					t.Errorf("kept %d: %q", i, got)
				}
			}
			if err := own.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i := range 16 {
		if got := content(dir, "p", fmt.Sprint("f", i)); got != fmt.Sprintf("%d %d\n", i, rounds-1) {
			t.Errorf("f%d: %q", i, got)
		}
	}
	if now, _ := os.Getwd(); now != wd || fmt.Sprint(os.Environ()) != env {
		t.Error("the program's working directory or environment changed")
	}
}

// recorder stores the records that it receives, with the content of the project at that moment.
type recorder struct {
	project string
	seen    []string
	err     error
}

func (r *recorder) Record(_ context.Context, rec nsrun.Record) error {
	r.seen = append(r.seen, fmt.Sprint(rec.Request.Command, " ", rec.Result.ExitCode, " ", len(rec.Result.Changes), " ", content(r.project, "f"), " ", rec.Session != nil))
	return r.err
}

func (r *recorder) Committed(_ context.Context, s *overlay.Session) error {
	r.seen = append(r.seen, "committed "+s.State().String())
	return nil
}

func (r *recorder) Discarded(_ context.Context, session string) error {
	r.seen = append(r.seen, "discarded "+fmt.Sprint(session != ""))
	return nil
}

// TestRecorder: the Recorder is called after the command and before the commit. If it fails, nothing is committed.
func TestRecorder(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t, "f: 1"), "p")
	rec := &recorder{project: p}
	r := runner(t, nsrun.Config{Project: p, After: nsrun.Commit, Recorder: rec})
	sh(t, r, "echo -n 2 >f; exit 4")
	if want := []string{"echo -n 2 >f; exit 4 4 1 1 true", "committed committed"}; !slices.Equal(rec.seen, want) || content(p, "f") != "2" {
		t.Errorf("%q", rec.seen)
	}
	rec.err = errors.New("disk full")
	if res, err := r.Run(t.Context(), nsrun.Request{Command: "echo 3 >f"}); !errors.Is(err, rec.err) || res.State != overlay.Kept || content(p, "f") != "2" {
		t.Errorf("%s, %v", res, err)
	}
	rec.seen, rec.err = nil, nil
	throws := runner(t, nsrun.Config{Project: p, After: nsrun.Discard, Recorder: rec})
	sh(t, throws, "echo 4 >f")
	if len(rec.seen) != 2 || rec.seen[1] != "discarded true" {
		t.Errorf("%q", rec.seen)
	}
	rec.seen = nil
	direct := runner(t, nsrun.Config{Project: p, Mode: nsrun.Direct, Recorder: rec})
	sh(t, direct, "true")
	if len(rec.seen) != 1 || !strings.HasSuffix(rec.seen[0], " false") {
		t.Errorf("%q", rec.seen)
	}
}

// TestEngines: the Runner works with each.
func TestEngines(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, e := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineTmpfs, overlay.EngineCopy} {
		for _, after := range []nsrun.After{nsrun.Keep, nsrun.Commit} {
			t.Run(fmt.Sprint(e, ", after ", after), func(t *testing.T) {
				c := nsrun.Config{Project: filepath.Join(place(t, "old: 1"), "p"), Engine: e, After: after}
				needFor(t, c)
				r := runner(t, c)
				sh(t, r, "echo 2 >a; rm old")
				if got := sh(t, r, "cat a; echo 3 >>a; ls"); got != "2\na\n" {
					t.Errorf("%q", got)
				}
				if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
					t.Error(err)
				}
				if got := content(c.Project, "a"); got != "2\n3\n" || isThere(c.Project, "old") {
					t.Errorf("%q", got)
				}
			})
		}
	}
}

// TestPresets: git's own files with Direct.
func TestPresets(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const write = "(echo x >.git/config) 2>/dev/null || echo protected; touch .git/objects/f 2>/dev/null || echo all of it"
	p := filepath.Join(place(t, ".git/config: ", ".git/objects/", ".git/HEAD: "), "p")
	if got := sh(t, runner(t, nsrun.Config{Project: p, Mode: nsrun.Direct}), write); got != "protected\nall of it\n" {
		t.Errorf("default: %q", got)
	}
	if got := sh(t, runner(t, nsrun.Config{Project: p, Mode: nsrun.Direct, Preset: nsrun.GitPreset}), write); got != "" {
		t.Errorf("git: %q", got)
	}
	home := os.Getenv("HOME")
	testenv.Tree(t, home, ".cache/go-build/", ".cache/other/")
	const caches = "cd ~/.cache; touch go-build/f other/f 2>/dev/null"
	c := nsrun.Config{Project: p, Shared: []nsrun.Folder{{Path: home, Mode: nsrun.ReadOnly}}}
	sh(t, runner(t, c), caches)
	if isThere(home, ".cache/go-build/f") {
		t.Error("default: written to the cache")
	}
	c.Preset = nsrun.BuildPreset
	sh(t, runner(t, c), caches)
	if !isThere(home, ".cache/go-build/f") || isThere(home, ".cache/other/f") {
		t.Error("build: not written to the cache, or to another one")
	}
}

// TestSpares: a session that stayed empty is used again, also by commands that run at the same time, and is removed
// when the Runner is closed. A session that was written to is not used again.
func TestSpares(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	project := filepath.Join(place(t), "p")
	state, err := overlay.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	r := nsrun.NewRunner(nsrun.Config{Project: project, After: nsrun.Commit})
	run := func(command string) nsrun.Result {
		res, err := r.Run(t.Context(), nsrun.Request{Command: command})
		if err != nil {
			t.Error(err)
		}
		return res
	}
	for range 3 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if res := run("ls -A"); len(res.Changes) > 0 || res.Session != "" || res.Stdout.String() != "" {
					t.Errorf("changes %v, session %q, the command saw %q", res.Changes, res.Session, res.Stdout)
				}
			})
		}
		wg.Wait()
		if res := run("touch x; rm x"); len(res.Changes) > 0 {
			t.Errorf("changes: %v", res.Changes)
		}
	}
	if res := run("echo x >file"); len(res.Changes) != 1 || res.State != overlay.Committed {
		t.Errorf("changes %v, %v", res.Changes, res.State)
	}
	if res := run("cat file; rm file"); res.Stdout.String() != "x\n" || len(res.Changes) != 1 {
		t.Errorf("the command saw %q, changes %v", res.Stdout, res.Changes)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	n := 0
	for info, err := range overlay.List(state) {
		if err != nil || info.State != overlay.Committed {
			t.Errorf("%+v, %v", info, err)
		}
		n++
	}
	list, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".gone") || strings.HasPrefix(e.Name(), ".new") {
			t.Errorf("left: %s", e.Name())
		}
	}
	if n != 2 {
		t.Errorf("%d sessions, want the 2 that have changes", n)
	}
	if entries, err := os.ReadDir(project); err != nil || len(entries) > 0 {
		t.Errorf("the project holds %v, %v", entries, err)
	}
}

// TestOldProcessIDs: the process id in a file that an earlier command left in the project is not that of a process of
// the next one.
func TestOldProcessIDs(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if err := unix.Access("/proc/sys/kernel/ns_last_pid", unix.W_OK); err != nil {
		testenv.Skip(t, "process-ids", "ns_last_pid: "+err.Error())
	}
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Commit})
	found := 0
	for range 3 { // once in 10,000 times two are equal
		sh(t, r, "echo $$ >pid")
		if got := sh(t, r, "kill -0 $(cat pid) 2>/dev/null && echo it runs || :"); strings.Contains(got, "it runs") {
			found++
		}
	}
	if found == 3 {
		t.Error("the process of another command seems to run still")
	}
}
