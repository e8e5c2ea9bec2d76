//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/ask"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestTerminalHelper is the program at the terminal of the tests below.
func TestTerminalHelper(t *testing.T) {
	command := os.Getenv("NSRUN_ASK")
	if command == "" {
		return // it is run by others
	}
	q := nsrun.Question{Action: nsrun.ActionNetwork, OneTime: true, Command: command}
	if target, ok := strings.CutPrefix(command, "write "); ok {
		q = nsrun.Question{Action: nsrun.ActionWrite, Target: target, Command: "x"}
	}
	var group sync.WaitGroup
	for range max(1, len(os.Getenv("NSRUN_ASK_TWICE"))*2) {
		group.Go(func() {
			answer, err := nsrun.Terminal{}.Approve(t.Context(), q)
			fmt.Printf("answer %d, %v\n", answer, err)
		})
	}
	group.Wait()
}

func atTerminal(t *testing.T, command string, env ...string) *testenv.Terminal {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	term := testenv.NewTerminal(t)
	c := exec.Command(exe, "-test.run=^TestTerminalHelper$", "-test.v")
	c.Env = append(os.Environ(), append(env, "NSRUN_ASK="+command, "NSRUN_TEST_AS_ROOT=shared")...)
	term.Attach(c)
	// The question must not depend on standard input.
	c.Stdin = nil
	c.SysProcAttr.Ctty = 1
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		late := time.AfterFunc(testenv.Patience, func() { _ = c.Process.Kill() })
		defer late.Stop()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	return term
}

// TestTerminal: the question shows the command escaped, and only a clear yes counts. A lasting answer can be chosen
// unless the question is for one time.
func TestTerminal(t *testing.T) {
	for _, c := range []struct {
		command, question, typed string
		answer                   nsrun.Answer
	}{
		{"curl x", "Run command with network access: curl x? [y/N] ", "y\n", nsrun.Allow},
		{"curl x", "? [y/N] ", "yes\n", nsrun.Allow},
		{"curl x", "? [y/N] ", "\n", nsrun.Deny},
		{"curl x", "? [y/N] ", "a\n", nsrun.Deny},
		{"curl x", "? [y/N] ", "yess\n", nsrun.Deny},
		{"a\x1b[2Jb\r\nc", `access: a\x1b[2Jb\r\nc? [y/N] `, "n\n", nsrun.Deny},
		{"write /x\x1b", `write access to "/x\x1b": x? [y]es`, "a\n", nsrun.AllowAlways},
		{"write /x", "write access to /x: x? [y]es", "s\n", nsrun.AllowSession},
		{"write /x", "? [y]es", "ns\n", nsrun.DenySession},
		{"write /x", "? [y]es", "na\n", nsrun.DenyAlways},
		{"write /x", "? [y]es", "whatever\n", nsrun.Deny},
	} {
		t.Run(fmt.Sprintf("%q %q", c.command, c.typed), func(t *testing.T) {
			testenv.Leaks(t)
			term := atTerminal(t, c.command)
			term.Await(c.question)
			term.Type(c.typed)
			term.Await(fmt.Sprintf("answer %d, <nil>", c.answer))
		})
	}
}

// TestTerminalTurns: questions that come together are asked one after the other.
func TestTerminalTurns(t *testing.T) {
	testenv.Leaks(t)
	term := atTerminal(t, "curl x", "NSRUN_ASK_TWICE=1")
	term.Await("[y/N] ")
	if n := strings.Count(term.Screen(), "[y/N]"); n != 1 {
		t.Fatalf("%d questions at once", n)
	}
	term.Type("y\n")
	testenv.Eventually(t, "the second question", func() bool { return strings.Count(term.Screen(), "[y/N]") == 2 })
	term.Type("n\n")
	term.Await("answer 1, <nil>")
	term.Await("answer 0, <nil>")
}

// TestNoTerminal: no terminal, no yes; and a question that is waited for ends with its
// context.
func TestNoTerminal(t *testing.T) {
	if tty, err := ask.Open(); err == nil {
		tty.Close()
		testenv.Skip(t, "no-terminal", "this test was started at one")
	}
	if answer, err := (nsrun.Terminal{}).Approve(t.Context(), nsrun.Question{}); answer != nsrun.Deny || !errors.Is(err, ask.ErrNoTerminal) {
		t.Errorf("%v, %v", answer, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if answer, err := (nsrun.Terminal{}).Approve(ctx, nsrun.Question{}); answer != nsrun.Deny || err == nil {
		t.Errorf("%v, %v", answer, err)
	}
}
