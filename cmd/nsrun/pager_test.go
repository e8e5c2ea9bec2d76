//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/diff"
	"github.com/nsrun/nsrun/internal/testenv"
)

// bench is a project in which several commands run, at a terminal and elsewhere.
type bench struct{ bin, dir string }

func newBench(t *testing.T) bench {
	t.Helper()
	testenv.Leaks(t, reap)
	d := bench{installed(t), testenv.Dir(t)}
	testenv.Tree(t, d.dir, "home/", "p/old: old\n")
	return d
}

func (d bench) command(env []string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(d.bin, "nsrun"), args...)
	c.Dir = filepath.Join(d.dir, "p")
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(d.dir, "home"), "LC_ALL=C.UTF-8",
		"GORACE=atexit_sleep_ms=0"}, env...) // else a second for each process
	return c
}

// terminal is what a terminal gets.
func (d bench) terminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	term := testenv.NewTerminal(t)
	c := d.command(env, args...)
	term.Attach(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%q: %v; the terminal shows\n%s", args, err, term.Screen())
	}
	_ = term.Slave().Close()
	_ = testenv.Poll(patience, func() bool { return term.Ended() })
	return strings.ReplaceAll(term.Screen(), "\r\n", "\n")
}

// pipe is what a pipe gets.
func (d bench) pipe(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.command([]string{"PAGER=false", "NSRUN_PAGER=false"}, args...).Output()
	if err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return string(out)
}

// TestEscapedOnTerminals: what a command wrote has no effect on a terminal, whichever verb prints it. Elsewhere every
// byte is unchanged.
func TestEscapedOnTerminals(t *testing.T) {
	d := newBench(t)
	const evil, name = "\x1b[8m\u202e\u009b31m\x0e\xff\xc3", "n\x1b[8m\u202e"
	if out, err := d.command(nil, "run", "--keep", "-q", "--", "sh", "-c", `printf %b "$1" >>old; printf %b "$1" >"$2"`, "sh", octals(evil+"\n"), name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	none := []string{"PAGER="}
	for _, args := range [][]string{
		{"log", "-p", "last"}, {"diff", "--patch"}, {"diff"}, {"diff", "--stat"}, {"diff", "--name-status"}, {"diff", "--color=never"},
		{"show"}, {"log", "last"}, {"log"}, {"files"}, {"ls"}, {"ls", "--json"}, {"show", "--json"}, {"log", "--json"},
	} {
		got := d.terminal(t, none, args...)
		if args[0] == "diff" {
			for _, colour := range []string{diff.Bold, diff.Red, diff.Green, diff.Cyan, diff.Normal} {
				got = strings.ReplaceAll(got, colour, "")
			}
		}
		if strings.ContainsAny(got, "\x1b\x0e\u202e\u009b") || strings.Contains(got, "\xff") || got == "" {
			t.Errorf("%q: the terminal gets %q", args, got)
		}
	}
	if got := d.terminal(t, none, "log", "-p", "last"); !strings.Contains(got, "+\\x1b[8m\\u202e\\u009b31m\\x0e\\xff\\xc3\n") {
		t.Errorf("log -p: %q", got)
	}
	// The control, and what git apply needs.
	for _, args := range [][]string{{"log", "-p", "last"}, {"diff", "--patch"}, {"diff"}} {
		if got := d.pipe(t, args...); !strings.Contains(got, "+"+evil+"\n") {
			t.Errorf("%q: the pipe gets %q", args, got)
		}
	}
}

// TestBinaries: log -p says of them that they differ, and how large they are; diff --patch has
// them.
func TestBinaries(t *testing.T) {
	d := newBench(t)
	if out, err := d.command(nil, "run", "--keep", "-q", "--", "sh", "-c", `head -c 300000 /dev/urandom >program; printf 'a\0b' >old`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := d.pipe(t, "log", "-p", "last")
	for _, want := range []string{"Binary files a/old and b/old differ (4 -> 3 bytes)\n", "Binary files /dev/null and b/program differ (none -> 300000 bytes)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "GIT binary patch") || strings.Count(got, "\n") > 20 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	if got := d.pipe(t, "diff", "--patch"); !strings.Contains(got, "GIT binary patch\nliteral 300000\n") {
		t.Error("diff --patch has no binaries")
	}
}

// TestPager: on a terminal $NSRUN_PAGER, else $PAGER; that it reads nothing is not an error.
func TestPager(t *testing.T) {
	d := newBench(t)
	if out, err := d.command(nil, "run", "--keep", "-q", "--", "sh", "-c", `seq 30000 >new`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const ours, theirs = "sed -n 's/^/ours:/;1,3p'", "sed -n 's/^/theirs:/;1,3p'"
	for i, args := range [][]string{{"log"}, {"diff", "--patch"}, {"diff", "--stat"}, {"log", "-p", "last"}, {"show"}} {
		for _, c := range []struct {
			env  []string
			want string
		}{
			{[]string{"NSRUN_PAGER=" + ours, "PAGER=" + theirs}, "ours:"}, {[]string{"PAGER=" + theirs}, "theirs:"},
			{[]string{"NSRUN_PAGER=" + ours, "TERM=dumb"}, ""}, {[]string{"NSRUN_PAGER=cat", "PAGER=" + theirs}, ""},
			{[]string{"NSRUN_PAGER=", "PAGER=" + theirs}, ""}, {[]string{"PAGER=no-such-pager --x"}, ""},
		} {
			if i > 0 && c.want != "ours:" {
				continue
			}
			got := d.terminal(t, c.env, args...)
			if strings.HasPrefix(got, c.want) != true || c.want == "" && strings.Contains(got, "ours:") || got == "" {
				t.Errorf("%q, %q: the terminal gets %.200q", args, c.env, got)
			}
		}
		if got := d.terminal(t, []string{"NSRUN_PAGER=true"}, args...); got != "" {
			t.Errorf("%q: a pager that reads nothing: %.200q", args, got)
		}
		if i == 0 || args[0] == "show" {
			continue
		}
		if got := d.pipe(t, args...); got == "" || strings.Contains(got, "ours:") {
			t.Errorf("%q: the pipe gets %.200q", args, got)
		}
	}
	// If the reader of a pipe stops, nothing is reported either.
	c := exec.Command("sh", "-c", `nsrun log -p last | head -n 1`)
	c.Dir, c.Env = d.command(nil).Dir, append(d.command(nil).Env, "PATH="+d.bin+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLogPatchOfMany: a patch of many files takes few descriptors.
func TestLogPatchOfMany(t *testing.T) {
	d := newBench(t)
	const script = `i=0; while [ $i -lt 200 ]; do echo $1 >f$i; i=$((i+1)); done`
	for _, text := range []string{"a", "b"} {
		if out, err := d.command(nil, "run", "--commit", "-q", "--", "sh", "-c", script, "sh", text).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c := d.command(nil)
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `ulimit -n 100; exec "$1" log -p last`, "sh", filepath.Join(d.bin, "nsrun")}
	out, err := c.Output()
	if n := strings.Count(string(out), "\n+b\n"); err != nil || n != 200 {
		t.Errorf("%d files, error %v", n, err)
	}
}
