//go:build linux

package nsexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// below are the processes of a sandbox: PID 1, and all that descends from it.
func below(pid1 int) (list []testenv.Process) {
	in := map[int]bool{pid1: true}
	for more := true; more; {
		more = false
		for _, p := range testenv.Processes() {
			if !in[p.Pid] && in[p.Parent] {
				in[p.Pid], more = true, true
			}
		}
	}
	for _, p := range testenv.Processes() {
		if in[p.Pid] {
			list = append(list, p)
		}
	}
	return list
}

// TestSignalStop: SIGSTOP stops the command and what it has started, also in another
// session, and not PID 1, which reaps and passes on meanwhile.
func TestSignalStop(t *testing.T) {
	leaks(t)
	for _, share := range []nsexec.Namespace{0, nsexec.PID} {
		c := shell("setsid sleep 1000 & trap 'echo got' USR1; echo; while :; do wait; done")
		c.Share, sandbox.Of(c).Reaper = share, true
		if share != 0 {
			c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev")}
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		command := commandOf(t, c.Process.Pid)
		states := func(want bool) func() bool {
			return func() bool {
				for _, p := range below(c.Process.Pid) {
					stops := p.Pid != c.Process.Pid && share == 0 || p.Pid == command
					if stopped := p.State == "T"; stopped != (want && stops) {
						return false
					}
				}
				return true
			}
		}
		for range 3 {
			if err := c.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "all is stopped but PID 1", states(true))
			if err := c.Signal(unix.SIGUSR1); err != nil { // it is for later
				t.Fatal(err)
			}
			if err := c.Signal(unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if line, err := lines.ReadString('\n'); line != "got\n" {
				t.Errorf("%q, %v", line, err)
			}
			testenv.Eventually(t, "all goes on", states(false))
		}
		for _, p := range below(c.Process.Pid) {
			if share != 0 && p.Pid != c.Process.Pid {
				_ = unix.Kill(p.Pid, unix.SIGKILL) // nobody else ends what it left
			}
		}
		_ = c.Process.Kill()
		if err := c.Wait(); err == nil {
			t.Error("no error")
		}
		if err := c.Signal(unix.SIGSTOP); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a signal after the end: %v", err)
		}
	}
}

// TestSignalOrder: a command that is stopped and continued at once goes on, and one that is continued and stopped at
// once is stopped.
func TestSignalOrder(t *testing.T) {
	leaks(t)
	c := shell("while read line; do echo $line; done")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }() // if it is stopped for ever
	command := commandOf(t, c.Process.Pid)
	is := func(stopped bool) func() bool {
		return func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
			if err != nil || !strings.Contains(string(status), "\nShdPnd:\t0000000000000000\n") {
				return false // PID 1 has not seen all signals yet
			}
			for _, p := range below(c.Process.Pid) {
				if p.Pid == command {
					return (p.State == "T") == stopped
				}
			}
			return false
		}
	}
	send := func(signals ...unix.Signal) {
		t.Helper()
		for _, sig := range signals {
			if err := c.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	lines := bufio.NewReader(out)
	for range 10 {
		// PID 1 itself is stopped meanwhile, so it finds all of them when it goes on.
		if err := c.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		send(unix.SIGSTOP, unix.SIGCONT)
		testenv.Eventually(t, "the command goes on", is(false))
		if _, err := io.WriteString(in, "line\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); line != "line\n" {
			t.Fatalf("%q, %v", line, err)
		}
		send(unix.SIGSTOP)
		testenv.Eventually(t, "the command is stopped", is(true))
		send(unix.SIGCONT, unix.SIGSTOP, unix.SIGCONT, unix.SIGSTOP)
		testenv.Eventually(t, "the command is stopped again", is(true))
		send(unix.SIGCONT)
		testenv.Eventually(t, "the command goes on again", is(false))
	}
	_ = in.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// TestSignalStopFull: a command is stopped though its user may have no more signals with a value pending. The control:
// such a signal is refused.
func TestSignalStopFull(t *testing.T) {
	leaks(t)
	// It starts no programs: after vfork(2) a process cannot be stopped until the other one has executed its program.
	c := shell("trap 'echo got' USR1; read line; echo ready; while :; do read line; done")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	// As the command can do.
	if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_SIGPENDING, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(syscall.Signal(64)); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("the control: %v", err)
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	command := commandOf(t, c.Process.Pid)
	is := func(stopped bool) func() bool {
		return func() bool {
			for _, p := range below(c.Process.Pid) {
				if p.Pid == command {
					return (p.State == "T") == stopped
				}
			}
			return false
		}
	}
	for range 3 {
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT, unix.SIGUSR1} {
			if err := c.Signal(sig); err != nil {
				t.Fatalf("%v: %v", sig, err)
			}
			if sig != unix.SIGUSR1 {
				testenv.Eventually(t, sig.String(), is(sig == unix.SIGSTOP))
			}
		}
		if line, err := lines.ReadString('\n'); line != "got\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
}

// TestSignalNobody: before Start there is nobody.
func TestSignalNobody(t *testing.T) {
	if err := shell("true").Signal(unix.SIGSTOP); err == nil {
		t.Error("no error")
	}
}

// TestNotFound: callers of os/exec look for its errors.
func TestNotFound(t *testing.T) {
	leaks(t)
	for _, path := range []string{"no-such-program", "/no/such/program"} {
		_, want := exec.Command(path).Output()
		c := nsexec.Command(path)
		c.Mounts = base()
		err := c.Run()
		for _, target := range []error{exec.ErrNotFound, fs.ErrNotExist} {
			// The errno is not lost where it is found along PATH.
			if is := errors.Is(want, target) || target == fs.ErrNotExist; errors.Is(err, target) != is {
				t.Errorf("%s: %v is %v: %v", path, err, target, !is)
			}
		}
		var got, plain *exec.Error
		if found := errors.As(want, &plain); errors.As(err, &got) != found || found && (got.Name != plain.Name || got.Err != plain.Err) {
			t.Errorf("%s: %v, os/exec has %v", path, got, plain)
		}
	}
}

// TestPWD: where only Dir is set PWD says so, as with os/exec.
func TestPWD(t *testing.T) {
	leaks(t)
	t.Setenv("PWD", "/stale")
	env := func(dir string, env []string) string {
		c := nsexec.Command("/usr/bin/env")
		c.Mounts, c.Dir, c.Env = base(), dir, env
		for line := range strings.Lines(output(t, c) + "\n") {
			if v, ok := strings.CutPrefix(line, "PWD="); ok {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	for _, c := range []struct {
		dir  string
		env  []string
		want string
	}{
		{"/usr", nil, "/usr"}, {"/usr/../mnt", nil, "/mnt"}, {"", nil, ""}, {"/usr", []string{"A=1"}, ""}, {"/usr", []string{"PWD=/x"}, "/x"},
	} {
		if got := env(c.dir, c.env); got != c.want {
			t.Errorf("Dir %q, Env %q: PWD is %q, want %q", c.dir, c.env, got, c.want)
		}
	}
}

// helpReaper starts sandboxes while something else waits for every child that ends.
func helpReaper([]string) int {
	var reaped atomic.Int64
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if pid, _ := unix.Wait4(-1, nil, 0, nil); pid > 0 {
				reaped.Add(1)
			}
		}
	}()
	lost := 0
	for i := range 40 {
		c := shell(fmt.Sprintf("exit %d", i%3))
		if i%3 == 2 {
			c = shell("kill -KILL $$")
		}
		if i >= 30 {
			sandbox.Of(c).AsPID1 = true
		}
		err := c.Run()
		code := 0
		ee, exited := errors.AsType[*exec.ExitError](err)
		if exited {
			code = ee.ExitCode()
			if ws, ok := ee.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				code = -int(ws.Signal())
			}
		}
		want := []int{0, 1, -9}[i%3]
		switch {
		case sandbox.Of(c).AsPID1 && !exited && errors.Is(err, unix.ECHILD):
			lost++ // and it is said
		case sandbox.Of(c).AsPID1 && i%3 == 2: // a PID 1 does not kill itself
		case code != want || err != nil && !exited:
			fmt.Printf("%d: %v, want %d\n", i, err, want)
			return 1
		}
	}
	nsexec.Shutdown()
	close(stop)
	fmt.Println("reaped:", reaped.Load() > 0, "lost:", lost > 0)
	return 0
}

// TestForeignWait: programs that wait for all their children do not take the result.
func TestForeignWait(t *testing.T) {
	leaks(t)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), helperVars("reaper")...)
	out, err := c.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "reaped: true") {
		t.Errorf("%v, %s", err, out)
	}
}

// TestStoppedLauncher: a stopped launcher delays nobody beyond the end of the context, and is replaced.
func TestStoppedLauncher(t *testing.T) {
	leaks(t)
	if err := shell("true").Run(); err != nil {
		t.Fatal(err)
	}
	spare(t)
	if err := unix.Kill(launcher(t), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		c := nsexec.CommandContext(ctx, "true")
		c.Mounts, c.Share = base(), nsexec.Net // no sandbox like that waits
		done := make(chan error, 1)
		go func() { done <- c.Run() }()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, context.DeadlineExceeded) { // nil: the launcher was replaced in time
				t.Errorf("%d: %v", i, err)
			}
		case <-time.After(testenv.Patience):
			t.Fatal("Start waits for the launcher")
		}
		cancel()
	}
	c := shell("echo fine")
	c.Share = nsexec.Net
	check(t, c, "fine")
}

// TestLauncherEnd: a launcher that somebody has killed is told from one that did not end by itself.
func TestLauncherEnd(t *testing.T) {
	leaks(t)
	for signal, want := range map[unix.Signal]string{
		unix.SIGKILL: "signal: killed", unix.SIGSTOP: "it did not end by itself and was killed", 0: "exit status 0",
	} {
		if err := shell("true").Run(); err != nil {
			t.Fatal(err)
		}
		spare(t)
		pid := launcher(t)
		if err := unix.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
		if signal == unix.SIGKILL {
			testenv.Eventually(t, "the launcher does not end", func() bool { return !testenv.Alive(pid) })
		}
		if end := nsexec.StopLauncher(); end != want {
			t.Errorf("%v: %q, want %q", signal, end, want)
		}
	}
}

// TestIgnoredChildren: the end of a command is noticed even if the program ignores SIGCHLD. What it executes inherits
// that.
func TestIgnoredChildren(t *testing.T) {
	leaks(t)
	nsexec.Shutdown() // a launcher that inherits it
	signal.Ignore(unix.SIGCHLD)
	defer func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGCHLD) // after which it is handled: Reset leaves it ignored
		signal.Stop(c)
		nsexec.Shutdown()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	for range 2 {
		c := nsexec.CommandContext(ctx, "sh", "-c", "true & wait; exit 3")
		c.Mounts = base()
		if err := c.Run(); err == nil || err.Error() != "exit status 3" {
			t.Fatalf("got %v", err)
		}
	}
}
