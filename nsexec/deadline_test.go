//go:build linux

package nsexec_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestDeadline: the command is asked to end, then killed with all that it has started.
func TestDeadline(t *testing.T) {
	leaks(t)
	const soon, late = 200 * time.Millisecond, testenv.Patience // late is never reached
	for _, c := range []struct {
		script, want string
		timedOut     bool
		delay        time.Duration
	}{
		{"trap 'exit 7' TERM; setsid sleep 1000 & while :; do wait; done", "exit status 7", true, late},
		{"trap '' TERM; setsid sleep 1000 & while :; do wait; done", "signal: killed", true, soon},
		{"kill -STOP $$", "signal: killed", true, soon},
		{"exec sleep 1000", "signal: terminated", true, late},
		{"exit 3", "exit status 3", false, late},
	} {
		for after := 300 * time.Millisecond; ; after *= 4 {
			timedOut, err := endsAt(t, c.script, after, c.delay, c.timedOut)
			if err != nil && err.Error() == c.want && timedOut == c.timedOut {
				break
			}
			// On a busy machine the script may need longer until its trap is set, or until it begins.
			early := errors.Is(err, context.DeadlineExceeded) || timedOut && err != nil && err.Error() == "signal: terminated"
			if !early || !c.timedOut || after > 20*time.Second {
				t.Errorf("%s: %v, want %s; timed out: %v", c.script, err, c.want, timedOut)
				break
			}
		}
	}
}

// endsAt runs a script that has the given delay between the request to end and being killed. It returns how the script
// ended, and whether its time was over.
func endsAt(t *testing.T, script string, after, delay time.Duration, limited bool) (timedOut bool, err error) {
	t.Helper()
	if !limited {
		after = time.Hour
	}
	cmd := shell(script)
	cmd.WaitDelay = delay
	sandbox.Of(cmd).Deadline = time.Now().Add(after)
	// The pipe is at its end when nobody is left.
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, context.DeadlineExceeded) {
		return true, err
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadByte(); err == nil {
		t.Error("there is output")
	}
	err = cmd.Wait()
	return sandbox.Of(cmd).TimedOut, err
}

// startWithin starts a sandbox whose time is limited so.
func startWithin(how string, after time.Duration) (*nsexec.Cmd, error) {
	c := shell("setsid sleep 1000 & kill -STOP $$")
	switch how {
	case "deadline":
		sandbox.Of(c).Deadline = time.Now().Add(after)
	case "context":
		ctx, cancel := context.WithTimeout(context.Background(), after)
		_ = cancel // the process ends soon
		plan := c.Mounts
		c = nsexec.CommandContext(ctx, "sh", c.Args[1:]...)
		c.Mounts = plan
	case "cancel":
		ctx, cancel := context.WithTimeout(context.Background(), after)
		_ = cancel // the process ends soon
		plan := c.Mounts
		c = nsexec.CommandContext(ctx, "sh", c.Args[1:]...)
		c.Mounts, c.WaitDelay = plan, 100*time.Millisecond
		c.Cancel = func() error { return c.Process.Signal(unix.SIGTERM) }
	}
	return c, c.Start()
}

// helpStop starts a sandbox whose time is limited, says which its PID 1 is, and stops.
func helpStop(args []string) int {
	c, err := startWithin(args[0], 500*time.Millisecond)
	for after := 2 * time.Second; errors.Is(err, context.DeadlineExceeded) && after < time.Minute; after *= 4 { // the machine is busy
		c, err = startWithin(args[0], after)
	}
	if err != nil {
		return complain(err)
	}
	fmt.Println(c.Process.Pid)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	err = c.Wait()
	if ee, ok := errors.AsType[*exec.ExitError](err); !ok {
		return complain(fmt.Errorf("not killed: %v", err))
	} else if ee.ExitCode() >= 0 || !sandbox.Of(c).TimedOut {
		return complain(fmt.Errorf("%v, timed out: %v", err, sandbox.Of(c).TimedOut))
	}
	return 0
}

// TestDeadlineOfStopped: the time is kept where the program is stopped, and it learns of
// that when it goes on.
func TestDeadlineOfStopped(t *testing.T) {
	leaks(t)
	for _, how := range []string{"deadline", "context", "cancel"} {
		c := exec.Command(exe, how)
		c.Env = append(os.Environ(), helperVars("stop")...)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid1, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		stopped := func() bool {
			p, ok := testenv.FindProcess(strconv.Itoa(c.Process.Pid))
			return ok && p.State == "T"
		}
		testenv.Eventually(t, "it stops", stopped)
		testenv.Eventually(t, "the end of the sandbox", func() bool { return !testenv.Alive(pid1) })
		if !stopped() {
			t.Errorf("%s: the program was not stopped all the time", how)
		}
		if err := c.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestWithoutCancel: without Cancel, the end of the context ends the command only after WaitDelay, as in os/exec,
// whether the context has a deadline or is cancelled.
func TestWithoutCancel(t *testing.T) {
	leaks(t)
	for _, deadline := range []bool{false, true} {
		for delay, want := range map[time.Duration]string{0: "", time.Millisecond: "signal: killed", testenv.Patience: ""} {
			script := "sleep 0.2"
			if want != "" {
				script = "sleep 1000"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if !deadline {
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
			}
			native := exec.CommandContext(ctx, "sh", "-c", script)
			native.Cancel, native.WaitDelay = nil, delay
			c := nsexec.CommandContext(ctx, "sh", "-c", script)
			c.Mounts, c.Cancel, c.WaitDelay = base(), nil, delay
			err, nativeErr := c.Start(), native.Start()
			if deadline && (err != nil || nativeErr != nil) {
				_, _ = c.Wait(), native.Wait()
				cancel()
				continue // the time was up before
			}
			if err != nil || nativeErr != nil {
				t.Fatal(err, nativeErr)
			}
			if !deadline {
				cancel()
			}
			for who, err := range map[string]error{"nsexec": c.Wait(), "os/exec": native.Wait()} {
				if err == nil && want != "" || err != nil && err.Error() != want {
					t.Errorf("%s, deadline %v, WaitDelay %v: %v, want %q", who, deadline, delay, err, want)
				}
			}
			cancel()
		}
	}
}
