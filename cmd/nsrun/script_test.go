//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/idmap"
	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// The scripts in testdata/script are run in a directory $WORK, with an empty
// $HOME, the project $WORK/p as working directory, and the test binary as nsrun
// and as bwrap. Beyond testscript's own commands they use those in scriptCommands.

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nsrun", "bwrap":
		if err := strike.Begin(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		main()
	}
	if strings.HasPrefix(os.Args[0], "nsrun:") { // a part of nsrun, where it is refused
		main()
	}
	// Linked with the entry point, the test itself has begun a
	// sandbox: its arguments look like bwrap's.
	for _, p := range testenv.Processes() {
		if p.Parent == os.Getpid() {
			_ = unix.Kill(p.Pid, unix.SIGKILL)
			_, _ = unix.Wait4(p.Pid, nil, 0, nil)
		}
	}
	// What a killed nsrun leaves behind becomes a child of the test, where the
	// search for leaks finds it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.AllNeedNamespaces()
	testenv.Main(m, reap)
}

func TestScript(t *testing.T) {
	bin := installed(t)
	testscript.RunT(serial{t}, testscript.Params{
		Dir:                 "testdata/script",
		WorkdirRoot:         testenv.Dir(t), // removed even if -run leaves scripts out
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(e *testscript.Env) error { return setup(e, bin) },
		Cmds:                scriptCommands,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return testenv.Root(), nil
			case "again": // what does not depend on the user was run as root before
				return testenv.Again(), nil
			case "own-ids": // file systems here take the ids of --own-ids
				return mapped()
			}
			if name, ok := strings.CutPrefix(cond, "have:"); ok {
				return have(name)
			}
			if name, ok := strings.CutPrefix(cond, "has:"); ok {
				return has(features.Name(strings.ReplaceAll(name, "-", " ")))
			}
			return false, errors.New("unknown condition " + cond)
		},
	})
}

// mapped reports whether directories of tests can be shown with other ids, which takes root.
func mapped() (bool, error) {
	if !testenv.Root() {
		return false, nil
	}
	var ns idmap.Namespace
	defer ns.Close()
	f, err := ns.Mount(os.TempDir(), false)
	if err != nil && os.Getenv("NSRUN_MUST_WORK") != "" {
		return false, err
	}
	if err != nil {
		return false, nil
	}
	return true, f.Close()
}

// have reports whether a program, or a file with that path, is installed. Where
// everything must work it is an error if it is not: make deps installs it.
func have(name string) (bool, error) {
	_, err := os.Stat(name)
	if !filepath.IsAbs(name) {
		_, err = exec.LookPath(name)
	}
	if err == nil {
		return true, nil
	}
	if os.Getenv("NSRUN_MUST_WORK") != "" {
		return false, errors.New(name + " must be installed here")
	}
	return false, nil
}

// has reports whether doctor says yes to a feature of the kernel; in a condition its name has hyphens for spaces.
func has(name features.Name) (bool, error) {
	if features.Describe(name).Lost == "" {
		return false, errors.New("there is no feature " + string(name))
	}
	f := features.Get(name)
	if f.Status == features.Unknown || f.Status == features.No && testenv.Must(string(name)) {
		return false, f.Err()
	}
	return f.Status == features.Yes, nil
}

// installed is a directory with the commands.
func installed(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := testenv.Dir(t)
	for _, name := range []string{"nsrun", "bwrap"} {
		if err := os.Symlink(exe, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// serial runs scripts one after the other: each is searched for leaks.
type serial struct{ *testing.T }

func (serial) Parallel()     {}
func (serial) Verbose() bool { return testing.Verbose() }

func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) {
		testenv.Leaks(t, reap)
		f(serial{t})
	})
}

// reap has the search for leaks wait for what was adopted.
var reap = testenv.Reap

// noon is the name of a time zone in which it is about noon: backups are kept for each day, and the day must not end in
// the middle of a script.
func noon() string { return fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) }

func setup(e *testscript.Env, bin string) error {
	home, project, tmp := filepath.Join(e.WorkDir, "home"), filepath.Join(e.WorkDir, "p"), filepath.Join(e.WorkDir, "tmp")
	for _, dir := range []string{home, project, tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	e.Cd = project
	self, err := os.Executable()
	if err != nil {
		return err
	}
	e.Vars = append(e.Vars, "BIN="+bin, "SELF="+self, "HOME="+home, "TMPDIR="+tmp, "PATH="+bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
		"XDG_STATE_HOME=", "TZ="+noon(), "UID="+strconv.Itoa(os.Getuid()), "GORACE=atexit_sleep_ms=0") // else a second for each process
	started := make(map[string]*background)
	e.Values[startedKey{}] = started
	e.Values[completerKey{}] = make(map[string]*completer)
	t := e.T()
	e.Defer(func() {
		for _, b := range started {
			_ = b.cmd.Process.Kill()
			_ = b.cmd.Wait()
		}
		left, err := os.ReadDir(tmp)
		if err != nil || len(left) > 0 {
			t.Log("FAIL: in TMPDIR there is still", left, err)
			t.FailNow()
		}
		// Halves of sessions begin with a dot.
		if left, _ := filepath.Glob(filepath.Join(home, ".local/state/nsrun/sessions/.*")); len(left) > 0 {
			t.Log("FAIL: there is still", left)
			t.FailNow()
		}
		if left, _ := filepath.Glob(filepath.Join(home, ".local/state/nsrun/sessions/*/scratch")); len(left) > 0 {
			t.Log("FAIL: there is still", left)
			t.FailNow()
		}
	})
	return nil
}

// background is a command that start started.
type background struct {
	cmd            *exec.Cmd
	stdout, stderr strings.Builder
}

type startedKey struct{}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// nsrun ARG… expects status 0.
	"nsrun": func(ts *testscript.TestScript, neg bool, args []string) {
		exits(ts, neg, append([]string{"0", "nsrun"}, args...))
	},
	// exits STATUS COMMAND ARG… expects that status.
	"exits": exits,
	// start NAME COMMAND ARG…; signal NAME SIGNAL; ends NAME STATUS.
	"start":  start,
	"signal": sendSignal,
	"ends":   ends,
	// await FILE waits until the file is there; says FILE TEXT, until it has the text.
	"await": await,
	"says":  says,
	// timesout FILE COMMAND ARG… expects exit status 124 from a command that makes FILE. Its argument TIME stands
	// for a time.
	"timesout": timesOut,
	// released FILE waits until nobody has a lock on the file; ! released: it is
	// locked now.
	"released": released,
	// listen NAME puts the address of a TCP server in the variable.
	"listen": listen,
	// sessions N expects so many sessions.
	"sessions": sessions,
	// json FILE PATH VALUE compares a value in a JSON file, or stdout; values
	// that are not strings as JSON. The path is like changes.0.kind.
	"json": jsonValue,
	// keys FILE PATH KEY… compares all keys of an object; the path "." is the top.
	"keys": jsonKeys,
	// lines stdout|stderr N counts lines.
	"lines": lines,
	// mode FILE MODE compares a mode, in octal.
	"mode": mode,
	// completes SCRIPT LINE [WORD…] expects that the script, which reads the line, prints these
	// words, in any order, and then "END" or its own end; @FILE stands for the words in the file.
	// A script that goes on reads the lines of the next commands too.
	"completes": completes,
}

func need(ts *testscript.TestScript, neg, mayNeg bool, args []string, atLeast int, usage string) {
	if neg && !mayNeg || len(args) < atLeast {
		ts.Fatalf("usage: %s", usage)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "exits STATUS COMMAND ARG…")
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		code = ee.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "start NAME COMMAND ARG…")
	path := args[1]
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		if p := filepath.Join(dir, args[1]); !strings.Contains(path, "/") {
			if _, err := os.Stat(p); err == nil {
				path = p
			}
		}
	}
	b := &background{cmd: exec.Command(path, args[2:]...)}
	b.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LC_ALL", "WORK", "XDG_STATE_HOME", "GORACE"} {
		b.cmd.Env = append(b.cmd.Env, name+"="+ts.Getenv(name))
	}
	b.cmd.Stdout, b.cmd.Stderr = &b.stdout, &b.stderr
	b.cmd.WaitDelay = patience
	ts.Check(b.cmd.Start())
	ts.Value(startedKey{}).(map[string]*background)[args[0]] = b
}

func theStarted(ts *testscript.TestScript, name string) *background {
	b := ts.Value(startedKey{}).(map[string]*background)[name]
	if b == nil {
		ts.Fatalf("%s was not started", name)
	}
	return b
}

func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "signal NAME SIGNAL")
	ts.Check(theStarted(ts, args[0]).cmd.Process.Signal(unix.SignalNum("SIG" + args[1])))
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "ends NAME STATUS")
	b := theStarted(ts, args[0])
	err := b.cmd.Wait()
	delete(ts.Value(startedKey{}).(map[string]*background), args[0])
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		ts.Fatalf("%v", err)
	}
	got := strconv.Itoa(b.cmd.ProcessState.ExitCode())
	if ws := b.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		got = unix.SignalName(ws.Signal())
	}
	fmt.Fprint(ts.Stdout(), b.stdout.String())
	fmt.Fprint(ts.Stderr(), b.stderr.String())
	if got != args[1] {
		ts.Fatalf("%s ended with %s, want %s\n%s%s", args[0], got, args[1], b.stdout.String(), b.stderr.String())
	}
}

// patience is for what takes milliseconds.
const patience = testenv.Patience

func await(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 1, "await FILE")
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		if _, err := os.Lstat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("%s did not appear", args[0])
		}
	}
}

// timesOut runs a command with TIME as its time limit, and makes that longer until the command has made the file in
// time: how long the command takes to begin depends on the machine.
func timesOut(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "timesout FILE COMMAND ARG… TIME …")
	file := ts.MkAbs(args[0])
	for limit := 300 * time.Millisecond; ; limit *= 4 {
		run := slices.Clone(args[1:])
		run[slices.Index(run, "TIME")] = limit.String()
		exits(ts, false, append([]string{"124"}, run...))
		if _, err := os.Lstat(file); err == nil {
			return
		}
		if limit > patience {
			ts.Fatalf("%s was not made in %s", file, limit)
		}
	}
}

// says waits until a file has a text.
func says(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "says FILE TEXT")
	if !testenv.Poll(patience, func() bool {
		b, _ := os.ReadFile(ts.MkAbs(args[0]))
		return strings.Contains(string(b), args[1])
	}) {
		ts.Fatalf("%s never had %q", args[0], args[1])
	}
}

func released(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, true, args, 1, "released FILE")
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	if neg {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			ts.Fatalf("not locked: %v", err)
		}
		return
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("somebody still has %s", args[0])
		}
	}
}

func listen(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 1, "listen NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			_ = c.Close()
		}
	}()
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

func sessions(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 1, "sessions N")
	// Sessions have a time in their names.
	entries, _ := filepath.Glob(filepath.Join(ts.Getenv("HOME"), ".local/state/nsrun/sessions/[0-9]*"))
	if strconv.Itoa(len(entries)) != args[0] {
		ts.Fatalf("there are %d sessions: %v", len(entries), entries)
	}
}

// lookup finds the value at path in a JSON file.
func lookup(ts *testscript.TestScript, file, path string) any {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	if path == "." {
		return v
	}
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				ts.Fatalf("%s: no key %s", path, key)
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				ts.Fatalf("%s: there is no %s of %d", path, key, len(at))
			}
			v = at[i]
		default:
			ts.Fatalf("%s: %v has no elements", path, v)
		}
	}
	return v
}

func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 3, "json FILE PATH VALUE")
	v := lookup(ts, args[0], args[1])
	got, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		ts.Check(err)
		got = string(b)
	}
	if got != args[2] {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}

func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 3, "keys FILE PATH KEY…")
	v, ok := lookup(ts, args[0], args[1]).(map[string]any)
	if !ok {
		ts.Fatalf("%s is not an object", args[1])
	}
	if got, want := slices.Sorted(maps.Keys(v)), slices.Sorted(slices.Values(args[2:])); !slices.Equal(got, want) {
		ts.Fatalf("keys are\n%v, want\n%v", got, want)
	}
}

func lines(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "lines stdout|stderr N")
	if n := strconv.Itoa(strings.Count(ts.ReadFile(args[0]), "\n")); n != args[1] {
		ts.Fatalf("%s has %s lines, want %s", args[0], n, args[1])
	}
}

func mode(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "mode FILE MODE")
	fi, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := jsonform.Octal(fi.Mode()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

func completes(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, false, args, 2, "completes SCRIPT LINE [WORD…]")
	var want []string
	for _, a := range args[2:] {
		if file, ok := strings.CutPrefix(a, "@"); ok {
			want = append(want, strings.Fields(ts.ReadFile(file))...)
		} else {
			want = append(want, a)
		}
	}
	slices.Sort(want)
	got := completions(ts, ts.MkAbs(args[0]), args[1])
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		ts.Fatalf("%s is completed by\n%q, want\n%q", args[1], got, want)
	}
}

// completer is a script of the command completes that waits for lines.
type completer struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

type completerKey struct{}

func completions(ts *testscript.TestScript, script, line string) (words []string) {
	running := ts.Value(completerKey{}).(map[string]*completer)
	c := running[script]
	if c == nil {
		c = &completer{cmd: exec.Command("timeout", "600", script)}
		c.cmd.Dir, c.cmd.Stderr = ts.MkAbs("."), ts.Stderr()
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "LC_ALL", "WORK", "XDG_STATE_HOME", "BASH_COMPLETION", "GORACE"} {
			c.cmd.Env = append(c.cmd.Env, name+"="+ts.Getenv(name))
		}
		in, err := c.cmd.StdinPipe()
		ts.Check(err)
		out, err := c.cmd.StdoutPipe()
		ts.Check(err)
		ts.Check(c.cmd.Start())
		c.in, c.out = in, bufio.NewReader(out)
		running[script] = c
		ts.Defer(func() {
			_ = in.Close()
			_ = c.cmd.Wait()
		})
	}
	_, err := io.WriteString(c.in, line+"\n")
	ts.Check(err)
	for {
		word, err := c.out.ReadString('\n')
		switch {
		case err == io.EOF && word == "":
			delete(running, script)
			return words
		case err != nil:
			ts.Fatalf("%s: %v", script, err)
		case word == "END\n":
			return words
		case word != "\n":
			words = append(words, strings.TrimSuffix(word, "\n"))
		}
	}
}
