//go:build linux

package homelayer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// mergerEnv has a helper merge what is in a layer, once.
const mergerEnv = "HOMELAYER_TEST_MERGER"

// mergeOnce uses a layer, while its system calls count.
func mergeOnce(path string) int {
	if err := strike.Begin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	l, err := Take(path, "/p", filepath.Dir(filepath.Dir(path)), 0o755, false)
	if err == nil {
		err = l.Release()
	}
	strike.End()
	if err != nil {
		return 1
	}
	return 0
}

// struck runs a helper with a path, and does something to it at one of its system calls.
func struck(t *testing.T, helper, path string, p strike.Plan) strike.Result {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), helper+"="+path)
	r, err := strike.Run(c, p)
	if errors.Is(err, strike.ErrNotPermitted) {
		testenv.Skip(t, "ptrace", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pendingScene is a layer whose user was killed, and three runs that ended before. They left new, replaced and deleted
// files, new directories, and files that two of them wrote, with others beside them.
func pendingScene(t *testing.T) (path string) {
	t.Helper()
	path = place(t)
	a := take(t, path)
	fill(t, a.Upper(), []string{"old: 1", "gone: 1", "d/a: 1", "d/b: 1", "db/data: 1", "kind: 1"})
	later(t, path)
	b := take(t, path)
	later(t, path)
	fill(t, b.Upper(), []string{"new: 2", "old: 2", "-gone", "d/a: 2", "n/m/f: 2", "db/data: 2", "db/log: 2", "db/more/x: 2", "kind/f: 2"})
	fill(t, a.Upper(), []string{"db/data: 9"})
	release(t, b)
	c := take(t, path) // which sees what b wrote
	e := take(t, path) // which does not see what c writes
	later(t, path)
	fill(t, c.Upper(), []string{"old: 3", "n/m/f: 3", "n/m/g: 3", "d/c: 3", "-d/b", "db/other: 3"})
	fill(t, e.Upper(), []string{"old: 4", "alone: 4", "n/h: 4"})
	release(t, c)
	release(t, e)
	a.close()
	return path
}

// merged is what a layer has when everything is merged, as its next user does.
func merged(t *testing.T, path string) string {
	t.Helper()
	l := take(t, path)
	defer release(t, l)
	if l.Lower() != nil {
		t.Errorf("not merged: %q", l.Lower())
	}
	if _, err := os.Lstat(filepath.Join(path, runsName)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	return text(t, l.Upper())
}

// TestMergeStruck kills a process that merges at each of its system calls, or lets the call fail. The result is always
// the same.
func TestMergeStruck(t *testing.T) {
	testenv.Leaks(t)
	path := pendingScene(t)
	whole := struck(t, mergerEnv, path, strike.Plan{})
	if whole.ExitCode != 0 || whole.Calls < 20 {
		t.Fatalf("%+v", whole)
	}
	const want = "d/ d/a: 2 d/c: 3 db/ db/data: 9 db/more/ db/more/x: 2 db/other: 3 kind/ kind/f: 2 n/ n/h: 4 n/m/ n/m/f: 3 n/m/g: 3 new: 2 old: 3"
	if got := merged(t, path); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	step := max(1, whole.Calls/testenv.Rounds(25, whole.Calls))
	for k := 1; k <= whole.Calls; k += step {
		for _, p := range []strike.Plan{{At: k, Do: strike.Kill}, {At: k, Do: strike.Fail, Errno: unix.EIO}} {
			path := pendingScene(t)
			r := struck(t, mergerEnv, path, p)
			if got := merged(t, path); got != want {
				t.Errorf("%s at %d, %s: got\n%s\nwant\n%s", p.Do, k, r.Call, got, want)
			}
		}
	}
}
