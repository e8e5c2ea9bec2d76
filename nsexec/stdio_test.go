//go:build linux

package nsexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

func TestOutput(t *testing.T) {
	leaks(t)
	c := shell("echo out; echo err >&2; exit 3")
	out, err := c.Output()
	ee, ok := errors.AsType[*exec.ExitError](err)
	if string(out) != "out\n" || !ok || ee.ExitCode() != 3 || string(ee.Stderr) != "err\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err = shell("echo out; echo err >&2").CombinedOutput()
	if string(out) != "out\nerr\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	// Much on standard error: the beginning and the end are kept.
	_, err = shell("echo begin >&2; head -c 200000 /dev/zero | tr '\\0' x >&2; echo end >&2; false").Output()
	if ee, ok = errors.AsType[*exec.ExitError](err); !ok || !bytes.HasPrefix(ee.Stderr, []byte("begin\n")) ||
		!bytes.HasSuffix(ee.Stderr, []byte("end\n")) || !bytes.Contains(ee.Stderr, []byte("\n... omitting 134474 bytes ...\n")) {
		t.Errorf("%v, %d bytes", err, len(ee.Stderr))
	}
}

func TestStdin(t *testing.T) {
	leaks(t)
	c := shell("cat; echo end")
	c.Stdin = strings.NewReader("text\n")
	check(t, c, "text\nend")
	// Nil is /dev/null, and empty.
	check(t, shell("cat; readlink /proc/self/fd/0"), "/dev/null")
	// A command need not read all.
	c = shell("exec true")
	c.Stdin = bytes.NewReader(make([]byte, 4<<20))
	if err := c.Run(); err != nil {
		t.Error(err)
	}
	// A file is passed as it is.
	f, err := os.Open(write(t, 0o644, "of a file", testenv.Dir(t), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c = shell("cat")
	c.Stdin = f
	check(t, c, "of a file")
	if n, _ := f.Seek(0, io.SeekCurrent); n != 9 {
		t.Errorf("the offset is %d: the command had another open file", n)
	}
	// A reader's error is Wait's.
	c = shell("cat")
	c.Stdin = io.MultiReader(strings.NewReader("x"), broken{})
	if err := c.Run(); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, errBroken }
func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestPipes(t *testing.T) {
	leaks(t)
	c := shell("read x; echo got $x; echo err >&2; read y; echo $y; cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errPipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "one")
	buf := make([]byte, 64)
	if n, err := out.Read(buf); string(buf[:n]) != "got one\n" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if n, err := errPipe.Read(buf); string(buf[:n]) != "err\n" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	fmt.Fprint(in, "two\nrest")
	in.Close()
	if b, err := io.ReadAll(out); string(b) != "two\nrest" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := out.Read(buf); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Wait: %v", err)
	}
	// The error of a writer is the error of Wait, as in os/exec.
	c = shell("echo x")
	c.Stdout = broken{}
	if err := c.Run(); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	// One writer for both is used by one goroutine.
	c = shell("for i in 1 2 3 4 5 6 7 8 9; do echo out; echo err >&2; done")
	var both strings.Builder
	c.Stdout, c.Stderr = &both, &both
	if err := c.Run(); err != nil || both.Len() != 9*8 {
		t.Errorf("%v: %q", err, both.String())
	}
}

// TestExtraFiles: the files are 3, 4 …; nil is a closed one; no other is there.
func TestExtraFiles(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		open := func(name string) *os.File {
			f, err := os.Open(write(t, 0o644, name, dir, name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		c := helper("files")
		sandbox.Of(c).ClassicMounts = classic
		a := open("a")
		c.ExtraFiles = []*os.File{a, nil, open("b"), open("c"), nil}
		check(t, c, "0 1 2 3=a 5=b 6=c")
		// The same file twice, and the standard ones again.
		c = helper("files")
		sandbox.Of(c).ClassicMounts = classic
		var out strings.Builder
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		c.Stdout = &out
		c.ExtraFiles = []*os.File{w, w}
		err = c.Run()
		w.Close()
		b, _ := io.ReadAll(r)
		if err != nil || string(b) != "hello from 3\nhello from 4\n" || out.String() != "0 1 2 3 4\n" {
			t.Errorf("%v: %q, %q", err, b, out.String())
		}
		// Many, in the wrong order for a naive dup2.
		c = helper("files")
		sandbox.Of(c).ClassicMounts = classic
		c.ExtraFiles = make([]*os.File, 50)
		want := "0 1 2"
		for i := range c.ExtraFiles {
			c.ExtraFiles[len(c.ExtraFiles)-1-i] = open(fmt.Sprint("many", i))
			want += fmt.Sprintf(" %d=many%d", 3+i, len(c.ExtraFiles)-1-i)
		}
		check(t, c, want)
	})
}

// TestInherited: what the program has open is not the command's, even without
// close-on-exec.
func TestInherited(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		nsexec.Shutdown() // a launcher that is started with these open
		dir, err := unix.Open(testenv.Dir(t), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(dir)
		const list = "cd /proc/self/fd && echo *"
		n := strconv.Itoa(dir)
		control, err := exec.Command("sh", "-c", list).Output()
		if err != nil || !slices.Contains(strings.Fields(string(control)), n) {
			t.Fatalf("the control does not have %s: %v, %s", n, err, control)
		}
		for range 2 { // a new sandbox, and one that waited
			c := helper("files")
			sandbox.Of(c).ClassicMounts = classic
			check(t, c, "0 1 2")
		}
		c := helper("files")
		sandbox.Of(c).ClassicMounts, sandbox.Of(c).AsPID1 = classic, true
		check(t, c, "0 1 2")
	})
}

// TestExitStatus: exit codes and signals are reported as os/exec does.
func TestExitStatus(t *testing.T) {
	leaks(t)
	for _, c := range []struct{ script, want string }{
		{"exit 0", ""}, {"exit 1", "exit status 1"}, {"exit 130", "exit status 130"}, {"exit 255", "exit status 255"},
		{"kill -KILL $$", "signal: killed"}, {"kill -TERM $$", "signal: terminated"}, {"kill -SEGV $$", "signal: segmentation fault"},
		{"kill -HUP $$", "signal: hangup"}, {"exit 127", "exit status 127"},
	} {
		for _, pid1 := range []bool{false, true} {
			if pid1 && strings.HasPrefix(c.script, "kill") {
				continue // PID 1 is not killed by its own signals
			}
			cmd := shell("ulimit -c 0; " + c.script)
			sandbox.Of(cmd).AsPID1 = pid1
			err := cmd.Run()
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.script, got, c.want)
			}
			control := exec.Command("sh", "-c", "ulimit -c 0; "+c.script)
			_ = control.Run()
			if g, w := cmd.ProcessState.Sys().(syscall.WaitStatus), control.ProcessState.Sys().(syscall.WaitStatus); g != w {
				t.Errorf("%s: wait status %#x, with os/exec %#x", c.script, g, w)
			}
			if cmd.ProcessState.ExitCode() != control.ProcessState.ExitCode() || cmd.ProcessState.Success() != control.ProcessState.Success() ||
				cmd.ProcessState.Exited() != control.ProcessState.Exited() {
				t.Errorf("%s: %v, with os/exec %v", c.script, cmd.ProcessState, control.ProcessState)
			}
		}
	}
}

// idle is a script that waits for signals. Not with read: one that comes just before the system call would be seen
// behind it only.
const idle = "while :; do sleep 0.01; done"

// TestSignals: a signal for Process reaches the command.
func TestSignals(t *testing.T) {
	leaks(t)
	for _, c := range []struct {
		signal os.Signal
		script string
		want   string
	}{
		{unix.SIGTERM, "echo; exec sleep 100", "signal: terminated"},
		{unix.SIGKILL, "echo; exec sleep 100", "signal: killed"},
		{unix.SIGINT, "trap 'exit 7' INT; echo; " + idle, "exit status 7"},
		{unix.SIGUSR1, "trap 'exit 8' USR1; echo; " + idle, "exit status 8"},
		{unix.SIGHUP, "trap 'exit 9' HUP; echo; " + idle, "exit status 9"},
	} {
		for _, how := range []string{"", "pid1", "session", "shared"} {
			if how == "pid1" && c.want == "signal: terminated" {
				continue // PID 1 ignores what it has no handler for
			}
			cmd := shell(c.script)
			cmd.NewSession = how == "session"
			sandbox.Of(cmd).AsPID1 = how == "pid1"
			if how == "shared" {
				cmd.Share = nsexec.PID
				cmd.Mounts = base()[:1]
			}
			if _, err := cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err == nil || err.Error() != c.want {
				t.Errorf("%v %s: got %v, want %s", c.signal, how, err, c.want)
			}
			if err := cmd.Process.Signal(c.signal); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("after the end: %v", err)
			}
		}
	}
}

// TestSignalMask: the command starts with signals as any other command does.
func TestSignalMask(t *testing.T) {
	leaks(t)
	const script = `grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status`
	control, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	check(t, shell(script), strings.TrimSuffix(string(control), "\n"))
	c := shell(script)
	sandbox.Of(c).AsPID1 = true
	check(t, c, strings.TrimSuffix(string(control), "\n"))
}

// TestRusage: the command's processor time and memory are counted, though PID 1 is
// what was waited for.
func TestRusage(t *testing.T) {
	leaks(t)
	c := shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 20000000 /dev/zero | tail -c 20000000 >/dev/null")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if d := c.ProcessState.UserTime(); d < 5*time.Millisecond || d > time.Minute {
		t.Errorf("user time %v", d)
	}
	if ru := c.ProcessState.SysUsage().(*syscall.Rusage); ru.Maxrss < 15<<10 {
		t.Errorf("at most %d KiB were used", ru.Maxrss)
	}
	if c.ProcessState.Pid() != c.Process.Pid {
		t.Errorf("process %d, state of %d", c.Process.Pid, c.ProcessState.Pid())
	}
}

// waiting is a context-bound command that waits for its end.
func waiting(ctx context.Context, script string) *nsexec.Cmd {
	c := nsexec.CommandContext(ctx, "sh", "-c", script)
	c.Mounts = base()
	return c
}

// started starts a command and waits until it says something.
func started(t *testing.T, c *nsexec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Stdout = w
	err = c.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// TestContext compares with os/exec, and with what its documentation says.
func TestContext(t *testing.T) {
	leaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := waiting(ctx, "echo; exec sleep 100")
	started(t, c)
	cancel()
	if err := c.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("killed: %v", err)
	}

	// Already over: nothing is started.
	c = waiting(ctx, "echo")
	if err := c.Start(); !errors.Is(err, context.Canceled) || c.Process != nil {
		t.Errorf("a context that is over: %v", err)
	}

	// Over after the command: no matter.
	ctx, cancel = context.WithCancel(t.Context())
	c = waiting(ctx, "echo")
	if err := c.Run(); err != nil {
		t.Error(err)
	}
	cancel()

	// A deadline, which comes after the start: on a busy machine a later one.
	for after := 30 * time.Millisecond; ; after *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		defer cancel()
		c := waiting(ctx, "sleep 100 & wait")
		if err := c.Start(); errors.Is(err, context.DeadlineExceeded) && after < time.Minute {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil || err.Error() != "signal: killed" || ctx.Err() != context.DeadlineExceeded {
			t.Errorf("deadline: %v", err)
		}
		return
	}
}

func TestCancel(t *testing.T) {
	leaks(t)
	mine := errors.New("mine")
	for _, c := range []struct {
		name, script string
		cancel       func(c *nsexec.Cmd) error
		want         func(err error) bool
	}{
		{"the command ends well: the context's error", "trap 'exit 0' TERM; echo; " + idle,
			func(c *nsexec.Cmd) error { return c.Process.Signal(unix.SIGTERM) },
			func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"the command ends badly: its exit status", "trap 'exit 5' TERM; echo; " + idle,
			func(c *nsexec.Cmd) error { return c.Process.Signal(unix.SIGTERM) },
			func(err error) bool { return err != nil && err.Error() == "exit status 5" }},
		{"Cancel's own error", "trap 'exit 0' TERM; echo; " + idle,
			func(c *nsexec.Cmd) error { _ = c.Process.Signal(unix.SIGTERM); return mine },
			func(err error) bool { return errors.Is(err, mine) }},
		{"Cancel says that it is over", "trap 'exit 0' TERM; echo; " + idle,
			func(c *nsexec.Cmd) error { _ = c.Process.Signal(unix.SIGTERM); return os.ErrProcessDone },
			func(err error) bool { return err == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cmd := waiting(ctx, c.script)
			cmd.Cancel = func() error { return c.cancel(cmd) }
			if _, err := cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			started(t, cmd)
			cancel()
			if err := cmd.Wait(); !c.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWaitDelay(t *testing.T) {
	leaks(t)
	// A command that does not mind being asked to end.
	ctx, cancel := context.WithCancel(t.Context())
	c := waiting(ctx, "trap '' TERM; echo; "+idle)
	c.Cancel = func() error { return c.Process.Signal(unix.SIGTERM) }
	c.WaitDelay = 20 * time.Millisecond
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	started(t, c)
	cancel()
	if err := c.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v", err)
	}
	// Somebody outside keeps the pipe open: only with a shared PID namespace can a
	// process of the sandbox outlive the command.
	c = shell("sleep 100 & echo $!; read -r x || exit 0")
	c.Share = nsexec.PID
	c.Mounts = base()[:2]
	c.WaitDelay = 20 * time.Millisecond
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &heard{then: stdin} // the time begins when all was read
	c.Stdout = out
	if err := c.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("got %v", err)
	}
	var pid int
	if _, err := fmt.Sscan(out.text.String(), &pid); err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

// TestLateOutput: what a command has written is read to its end, however late its reader is. The reader of the rest is
// one whose first write takes until the command is gone, and WaitDelay is over at once.
func TestLateOutput(t *testing.T) {
	leaks(t)
	for range 20 {
		c := shell("head -c 60000 /dev/zero")
		c.WaitDelay = 1
		out := &tardy{gone: func() bool { return unix.Kill(c.Process.Pid, 0) != nil }}
		c.Stdout = out
		if err := c.Run(); err != nil || out.n != 60000 {
			t.Fatalf("%d bytes, %v", out.n, err)
		}
	}
}

// TestLateOutputOfCancelled: so is what a command had written that was killed because its context ended.
func TestLateOutputOfCancelled(t *testing.T) {
	leaks(t)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		c := nsexec.CommandContext(ctx, "sh", "-c", "head -c 60000 /dev/zero; echo >&2; sleep 1000")
		c.Mounts = base()
		c.WaitDelay = 1
		out := &tardy{gone: func() bool { return unix.Kill(c.Process.Pid, 0) != nil }}
		c.Stdout, c.Stderr = out, writerFunc(cancel)
		if err := c.Run(); !killed(err) || out.n != 60000 {
			t.Fatalf("%d bytes, %v", out.n, err)
		}
	}
}

// writerFunc is called for what is written to it.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func killed(err error) bool {
	e, ok := errors.AsType[*exec.ExitError](err)
	return ok && e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// tardy counts what is written to it, and does not take more until gone.
type tardy struct {
	gone func() bool
	n    int
}

func (w *tardy) Write(p []byte) (int, error) {
	for w.n += len(p); !w.gone(); {
		runtime.Gosched()
	}
	return len(p), nil
}

// heard is what a command has said. It closes something when that is a line.
type heard struct {
	text bytes.Buffer // embedded it would be read into, past Write
	then io.Closer
}

func (h *heard) Write(b []byte) (int, error) {
	n, err := h.text.Write(b)
	if bytes.HasSuffix(b, []byte("\n")) {
		_ = h.then.Close()
	}
	return n, err
}

// TestDir: it is a path of the sandbox.
func TestDir(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "d/e/", "link => d/e")
		for _, c := range []struct{ dir, want string }{
			{filepath.Join(dir, "d"), filepath.Join(dir, "d")},
			{filepath.Join(dir, "link"), filepath.Join(dir, "d/e")},
			{"/", "/"}, {"/proc/self", "/proc/1"}, // until the fork
		} {
			cmd := shell("pwd -P")
			sandbox.Of(cmd).ClassicMounts, cmd.Dir = classic, c.dir
			if c.dir == "/proc/self" {
				sandbox.Of(cmd).AsPID1 = true
			}
			check(t, cmd, c.want)
		}
		t.Chdir(filepath.Join(dir, "d"))
		cmd := shell("pwd -P")
		sandbox.Of(cmd).ClassicMounts = classic
		check(t, cmd, filepath.Join(dir, "d"))
		cmd = shell("pwd -P")
		sandbox.Of(cmd).ClassicMounts = classic
		cmd.Mounts = append(cmd.Mounts, base(tmpfs(dir))[4:]...) // now it is not there
		check(t, cmd, "/")
	})
}

func TestEnv(t *testing.T) {
	leaks(t)
	t.Setenv("SECRET_TOKEN", "x")
	t.Setenv("LC_TEST", "y")
	t.Setenv("LD_PRELOAD_X", "z")
	out := output(t, shell("env"))
	for line := range strings.Lines(out) {
		key, _, _ := strings.Cut(line, "=")
		switch key {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "PWD", "OLDPWD", "_", "SHLVL":
		default:
			if !strings.HasPrefix(key, "LC_") {
				t.Errorf("the command has %s", line)
			}
		}
	}
	if !strings.Contains(out, "LC_TEST=y") || !strings.Contains(out, "PATH=") {
		t.Errorf("missing in %s", out)
	}
	c := nsexec.Command("/usr/bin/env")
	c.Mounts = base()
	c.Env = []string{"A=1", "B=two words"}
	check(t, c, "A=1\nB=two words")
	c = nsexec.Command("/usr/bin/env")
	c.Mounts = base()
	c.Env = []string{}
	check(t, c, "")
	// The program is looked up along the command's PATH.
	bin := testenv.Dir(t)
	write(t, 0o755, "#!/bin/sh\necho mine \"$0\" \"$@\"\n", bin, "prog")
	c = nsexec.Command("prog", "a", "b c")
	c.Mounts = base()
	c.Env = []string{"PATH=/none:" + bin}
	check(t, c, "mine "+bin+"/prog a b c")
}

func TestArgs(t *testing.T) {
	leaks(t)
	c := nsexec.Command("/bin/sh")
	c.Mounts = base()
	c.Args = []string{"other name", "-c", `echo "$0" "$1"`, "zero", "one"}
	check(t, c, "zero one")
	c = nsexec.Command("/usr/bin/true")
	c.Mounts = base()
	c.Args = nil
	if err := c.Run(); err != nil {
		t.Error(err)
	}
	if s := nsexec.Command("a", "b", "c d").String(); s != "a b c d" {
		t.Errorf("String is %q", s)
	}
}
