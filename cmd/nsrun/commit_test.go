//go:build linux

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay"
)

// committing is a project with a session that changes many files of it.
type committing struct {
	bin, project string
	env          []string
	before       []string // how the project is
}

const manyFiles = 3000

func newCommitting(t *testing.T) committing {
	t.Helper()
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/1: old\n")
	c := committing{bin: installed(t), project: filepath.Join(dir, "p"), env: []string{"HOME=" + filepath.Join(dir, "home")}}
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo new >$i; done", manyFiles)
	if status, out := nsrunIn(t, c.project, c.env, "run", "-q", "sh", "-c", script); status != 0 {
		t.Fatal(status, out)
	}
	c.before = testenv.Listing(t, c.project)
	return c
}

// underway reports whether a commit has begun and not ended.
func (c committing) underway() bool {
	entries, _ := os.ReadDir(filepath.Join(c.project, "../home/.local/state/nsrun/sessions/pending"))
	return len(entries) > 0
}

// staging reports whether a commit that is under way has made something: before that there
// is nothing to finish or to take back.
func (c committing) staging() bool {
	made, _ := filepath.Glob(filepath.Join(c.project, "../home/.local/state/nsrun/sessions/*/tx/*/objects/*"))
	return len(made) > 0 && c.underway()
}

// stop starts a commit, and sends a signal as soon as it has begun.
func (c committing) stop(t *testing.T, s os.Signal) (status int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(c.bin, "nsrun"), "commit")
	cmd.Dir, cmd.Env = c.project, append(os.Environ(), c.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "a commit", func() bool { return c.staging() || !testenv.Alive(cmd.Process.Pid) })
	_ = cmd.Process.Signal(s)
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// committed reports whether the project is as the session made it; if it is not as it
// was either, the test ends.
func (c committing) committed(t *testing.T) bool {
	t.Helper()
	if entries, err := os.ReadDir(c.project); err == nil && len(entries) == manyFiles {
		return true
	}
	if d := testenv.Difference(t, c.project, c.before); d != "" {
		t.Fatal(d)
	}
	return false
}

// away moves the project away for a while. nsrun can then neither finish what was interrupted nor take it back: it says
// so, and keeps the session.
func (c committing) away(t *testing.T) {
	t.Helper()
	other := filepath.Dir(c.project)
	if err := os.Rename(c.project, c.project+".away"); err != nil {
		t.Fatal(err)
	}
	_, list := nsrunIn(t, other, c.env, "ls", "--all")
	newest := regexp.MustCompile(`[0-9]{8}T[0-9]{6}Z-[a-z2-7]{8}`).FindString(list)
	for _, v := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"ls", "--all"}, 0, "  interrupted  "},
		{[]string{"ls"}, 0, " was interrupted, and stays so: "},
		{[]string{"show", newest}, 125, "state    interrupted"},
		{[]string{"doctor", "--sessions"}, 0, " interrupted: 2"},
		{[]string{"gc", newest}, 125, "could be neither finished nor taken back"},
		{[]string{"gc"}, 0, "stays so"},
		{[]string{"gc", "--kept", "--older", "0"}, 125, "could be neither finished nor taken back"},
		{[]string{"commit", newest}, 125, "open "},
		{[]string{"discard", newest}, 125, "open "},
	} {
		if status, out := nsrunIn(t, other, c.env, v.args...); status != v.status || !strings.Contains(out, v.says) {
			t.Errorf("%q: status %d\n%s", v.args, status, out)
		}
	}
	if err := os.Rename(c.project+".away", c.project); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptedCommit: Ctrl-C while a commit is being prepared means that nothing was
// done; later it is too late, and all of it is.
func TestInterruptedCommit(t *testing.T) {
	testenv.Leaks(t, reap)
	c := newCommitting(t)
	for range 3 {
		switch status := c.stop(t, unix.SIGINT); status {
		case 130:
			if c.committed(t) {
				t.Fatal("it is committed")
			}
		case 0:
			if !c.committed(t) {
				t.Fatal("the session is not committed")
			}
			return
		default:
			t.Fatalf("exit status %d", status)
		}
		if c.underway() {
			t.Error("the commit is still in progress")
		}
	}
}

// TestKilledCommit: after a killed commit, the next command says what was left, and the project is as before the commit
// or as after it.
func TestKilledCommit(t *testing.T) {
	testenv.Leaks(t, reap)
	c := newCommitting(t)
	told := false
	for tries := 0; tries < 10 && !told; tries++ {
		c.stop(t, unix.SIGKILL)
		if c.underway() {
			c.away(t)
		}
		verb := []string{"doctor", "--sessions"}
		if tries%2 == 1 {
			verb = []string{"ls"}
		}
		status, out := nsrunIn(t, c.project, c.env, verb...)
		told = strings.Contains(out, "was interrupted: ")
		if status != 0 || c.underway() {
			t.Fatalf("status %d, still in progress: %v\n%s", status, c.underway(), out)
		}
		if again, out := nsrunIn(t, c.project, c.env, verb...); again != 0 || strings.Contains(out, "interrupted") {
			t.Errorf("status %d\n%s", again, out)
		}
		if c.committed(t) {
			if status, out := nsrunIn(t, c.project, c.env, "undo"); status != 0 {
				t.Fatalf("status %d\n%s", status, out)
			}
		}
	}
	if !told {
		t.Error("nothing was interrupted")
	}
}

// TestPrefer: one answer to conflicts at most, and others for paths.
func TestPrefer(t *testing.T) {
	for args, c := range map[string]struct {
		want    overlay.Preference
		choices []overlay.Choice
		ok      bool
	}{
		"":                 {overlay.Refuse, nil, true},
		"--theirs":         {overlay.Theirs, nil, true},
		"--ours":           {overlay.Ours, nil, true},
		"--merge":          {overlay.Merge, nil, true},
		"--theirs --merge": {0, nil, false},
		"--theirs=":        {0, nil, false},
		"--merge --ours=a --theirs=b/*.go --merge=./true": {overlay.Merge,
			[]overlay.Choice{{Path: "a", Prefer: overlay.Ours}, {Path: "b/*.go", Prefer: overlay.Theirs}, {Path: "./true", Prefer: overlay.Merge}}, true},
	} {
		var o commitOptions
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		commitFlags(fs, &o)
		err := fs.Parse(strings.Fields(args))
		var got overlay.Preference
		if err == nil {
			got, err = o.prefer()
		}
		if (err == nil) != c.ok || c.ok && (got != c.want || !slices.Equal(o.Choices, c.choices)) {
			t.Errorf("%s: %v, %v, %v", args, got, o.Choices, err)
		}
	}
}
