//go:build linux

package strike

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// programEnv makes the test binary the program that is struck.
const programEnv = "NSRUN_STRIKE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		if err := programs[name](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m)
}

var programs = map[string]func(dir string) error{
	"steps":   steps,
	"threads": threads,
	"child":   child,
	"abort":   func(string) error { return errors.Join(Begin(), unix.Kill(os.Getpid(), unix.SIGTERM), block()) },
}

func block() error { select {} }

// steps makes a few files, one system call after another.
func steps(dir string) error {
	p := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(p("before"), []byte("x"), 0o644); err != nil {
		return err
	}
	if err := Begin(); err != nil {
		return err
	}
	defer End()
	for _, do := range []func() error{
		func() error { return unix.Mkdirat(unix.AT_FDCWD, p("1"), 0o755) },
		func() error { return unix.Symlinkat("text", unix.AT_FDCWD, p("2")) },
		func() error { return os.WriteFile(p("3"), []byte("three"), 0o644) }, // open, write
		func() error { return unix.Renameat2(unix.AT_FDCWD, p("3"), unix.AT_FDCWD, p("5"), 0) },
		func() error { return unix.Fchmodat(unix.AT_FDCWD, p("5"), 0o600, 0) },
		func() error { _, err := os.ReadFile(p("5")); return err }, // counts with Opens
		func() error { return unix.Unlinkat(unix.AT_FDCWD, p("2"), 0) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	End()
	if err := os.WriteFile(p("after"), nil, 0o644); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

const manyThreads, manyFiles = 8, 25

// threads makes files on several threads at once.
func threads(dir string) error {
	if err := Begin(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range manyThreads {
		wg.Go(func() {
			runtime.LockOSThread() // it ends with the goroutine
			for j := range manyFiles {
				if err := unix.Mkdirat(unix.AT_FDCWD, filepath.Join(dir, fmt.Sprintf("%d-%d", i, j)), 0o755); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	End()
	return errors.Join(errs...)
}

// child lets another program do it.
func child(dir string) error {
	if err := Begin(); err != nil {
		return err
	}
	c := exec.Command("/bin/sh", "-c", `mkdir "$0/a" && mkdir "$0/b"`, dir)
	c.Stderr = os.Stderr
	return c.Run()
}

// strikeAt runs a program in an empty directory and returns what it left there.
func strikeAt(t *testing.T, program string, p Plan) (r Result, left []string, out string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	var b bytes.Buffer
	c := exec.Command(exe, dir)
	c.Env = append(os.Environ(), programEnv+"="+program)
	c.Stdout, c.Stderr = &b, &b
	r, err = Run(c, p)
	if errors.Is(err, ErrNotPermitted) {
		testenv.Skip(t, "ptrace", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return r, left, b.String()
}

func TestStrike(t *testing.T) {
	testenv.Leaks(t)
	for _, test := range []struct {
		name     string
		plan     Plan
		calls    int
		call     string // the name of the one that is struck
		killed   bool
		exitCode int
		left     string
		out      string
	}{
		{"none", Plan{}, 7, "", false, 0, "1 5 after before", "done"},
		{"opens", Plan{Opens: true}, 8, "", false, 0, "1 5 after before", "done"},
		{"looks", Plan{Looks: true}, 11, "", false, 0, "1 5 after before", "done"},
		{"a look fails", Plan{At: 10, Do: Fail, Looks: true}, 10, "read", false, 1, "1 2 5 before", "input/output error"},
		{"first", Plan{At: 1}, 1, "mkdirat", true, -1, "before", ""},
		{"first, after", Plan{At: 1, Do: KillAfter}, 1, "mkdirat", true, -1, "1 before", ""},
		{"rename", Plan{At: 5}, 5, "renameat2", true, -1, "1 2 3 before", ""},
		{"rename, after", Plan{At: 5, Do: KillAfter}, 5, "renameat2", true, -1, "1 2 5 before", ""},
		{"last, after", Plan{At: 7, Do: KillAfter}, 7, "unlinkat", true, -1, "1 5 before", ""},
		{"behind the last", Plan{At: 8}, 7, "", false, 0, "1 5 after before", "done"},
		{"fails", Plan{At: 2, Do: Fail, Errno: unix.ENOSPC}, 2, "symlinkat", false, 1, "1 before", "no space left on device"},
		{"fails, the zero errno", Plan{At: 1, Do: Fail}, 1, "mkdirat", false, 1, "before", "input/output error"},
		{"write fails", Plan{At: 4, Do: Fail, Errno: unix.EDQUOT}, 4, "write", false, 1, "1 2 3 before", "disk quota exceeded"},
		{"stays full, but a mode needs no room", Plan{At: 6, Do: Fail, Errno: unix.ENOSPC, Stay: true}, 7, "fchmodat", false, 0, "1 5 after before", "done"},
		{"stays broken", Plan{At: 6, Do: Fail, Errno: unix.EROFS, Stay: true}, 6, "fchmodat", false, 1, "1 2 5 before", "read-only file system"},
		{"an open fails", Plan{At: 7, Do: Fail, Opens: true}, 7, "openat", false, 1, "1 2 5 before", "input/output error"},
		{"only some", Plan{At: 2, Do: Fail, Only: func(c Call) bool { return strings.HasSuffix(c.Name, "at") }}, 2, "symlinkat", false, 1, "1 before", "input/output error"},
		{"only one", Plan{At: 1, Do: Fail, Only: func(c Call) bool { return c.Name == "unlinkat" }}, 1, "unlinkat", false, 1, "1 2 5 before", "input/output error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			test.plan.Trace = func(_ int, c Call) { names = append(names, c.String()) }
			r, left, out := strikeAt(t, "steps", test.plan)
			if r.Calls != test.calls || r.Killed != test.killed || r.ExitCode != test.exitCode {
				t.Errorf("got %+v: %q\n%s", r, names, out)
			}
			if r.Call.Name != test.call {
				t.Errorf("struck %v, want %s", r.Call, test.call)
			}
			if got := strings.Join(left, " "); got != test.left {
				t.Errorf("left %s, want %s", got, test.left)
			}
			if !strings.Contains(out, test.out) || test.out == "" && out != "" {
				t.Errorf("said %q, want %q", out, test.out)
			}
		})
	}
}

func TestCallsAreNamed(t *testing.T) {
	var got []string
	r, _, _ := strikeAt(t, "steps", Plan{At: 5, Trace: func(k int, c Call) {
		got = append(got, c.Name)
		if k != len(got) {
			t.Errorf("call %d is reported as %d", len(got), k)
		}
	}})
	if want := []string{"mkdirat", "symlinkat", "openat", "write", "renameat2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if f := r.Call.Files; len(f) != 2 || filepath.Base(f[0]) != "3" || filepath.Base(f[1]) != "5" {
		t.Errorf("%v does not name the paths", r.Call)
	}
}

// Every call of every thread counts, and nothing happens behind the one at which the
// program is killed.
func TestThreads(t *testing.T) {
	testenv.Leaks(t)
	r, left, out := strikeAt(t, "threads", Plan{})
	if r.Calls != manyThreads*manyFiles || len(left) != r.Calls || r.ExitCode != 0 {
		t.Fatalf("got %+v, %d directories\n%s", r, len(left), out)
	}
	step := 37
	if testenv.Long() {
		step = 3
	}
	for k := 1; k <= r.Calls; k += step {
		r, left, _ := strikeAt(t, "threads", Plan{At: k})
		// Others may be on their way to the disk, one for each thread.
		if !r.Killed || r.Calls != k || len(left) >= k || len(left) < k-manyThreads {
			t.Errorf("killed at %d: %+v, %d directories", k, r, len(left))
		}
		r, left, _ = strikeAt(t, "threads", Plan{At: k, Do: Fail, Errno: unix.ENOSPC})
		if r.Killed || r.Failed != 1 || r.ExitCode != 1 || len(left) != manyThreads*manyFiles-1 {
			t.Errorf("failed at %d: %+v, %d directories", k, r, len(left))
		}
		r, left, _ = strikeAt(t, "threads", Plan{At: k, Do: Fail, Errno: unix.ENOSPC, Stay: true})
		if r.Failed != manyThreads*manyFiles-k+1 || len(left) != k-1 {
			t.Errorf("full from %d on: %+v, %d directories", k, r, len(left))
		}
	}
}

func TestChildProcess(t *testing.T) {
	testenv.Leaks(t)
	r, left, out := strikeAt(t, "child", Plan{})
	if r.Calls != 2 || len(left) != 2 || r.ExitCode != 0 {
		t.Fatalf("got %+v, %q\n%s", r, left, out)
	}
	r, left, _ = strikeAt(t, "child", Plan{At: 2})
	if !r.Killed || len(left) != 1 {
		t.Errorf("got %+v, %q", r, left)
	}
}

// Without Begin, the calls count that make a process, until it executes another program, which then does what it likes.
func TestStarts(t *testing.T) {
	testenv.Leaks(t)
	var names []string
	r, left, out := strikeAt(t, "child", Plan{Starts: true, Trace: func(_ int, c Call) { names = append(names, c.Name) }})
	if r.ExitCode != 0 || len(left) != 2 || !slices.Contains(names, "execve") || slices.Contains(names, "mkdirat") {
		t.Fatalf("got %+v, %q, %q\n%s", r, names, left, out)
	}
	exec := func(c Call) bool { return c.Name == "execve" }
	r, left, out = strikeAt(t, "child", Plan{Starts: true, Only: exec, At: 1, Do: Fail, Errno: unix.EMFILE})
	if r.Failed != 1 || r.ExitCode != 1 || len(left) != 0 || !strings.Contains(out, "too many open files") {
		t.Errorf("got %+v, %q\n%s", r, left, out)
	}
	r, left, out = strikeAt(t, "child", Plan{Starts: true, Only: exec, At: 1}) // the child is killed, the program is not
	if !r.Killed || r.ExitCode != 1 || len(left) != 0 || !strings.Contains(out, "signal: killed") {
		t.Errorf("got %+v, %q\n%s", r, left, out)
	}
}

// A process whose parent is killed while it is made goes on.
func TestKilledWhileItForks(t *testing.T) {
	testenv.Leaks(t)
	for range 50 {
		c := exec.Command("sh", "-c", "(echo made) & wait")
		var out bytes.Buffer
		c.Stdout, c.WaitDelay = &out, testenv.Patience
		fork := func(c Call) bool { return strings.HasPrefix(c.Name, "clone") }
		r, err := Run(c, Plan{Starts: true, Only: fork, At: 1, Do: KillAfter})
		if errors.Is(err, ErrNotPermitted) {
			testenv.Skip(t, "ptrace", err.Error())
		}
		if err != nil || !r.Killed || r.ExitCode != -1 || out.String() != "made\n" {
			t.Fatalf("got %+v, %v, %q", r, err, &out)
		}
	}
}

func TestOwnEnd(t *testing.T) {
	testenv.Leaks(t)
	if r, _, _ := strikeAt(t, "abort", Plan{At: 1}); r.Killed || r.ExitCode != -1 {
		t.Errorf("got %+v", r)
	}
	if _, err := Run(exec.Command(filepath.Join(t.TempDir(), "missing")), Plan{}); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrNotPermitted) {
		t.Errorf("got %v", err)
	}
}

// Without Run, the marks do nothing.
func TestUntraced(t *testing.T) {
	dir := t.TempDir()
	if err := steps(dir); err != nil {
		t.Error(err)
	}
}
