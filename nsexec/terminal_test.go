//go:build linux

package nsexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

func atTerminal(t *testing.T, how, script string) (*testenv.Terminal, *exec.Cmd) {
	t.Helper()
	term := testenv.NewTerminal(t)
	c := exec.Command(exe, how, script)
	c.Env = append(os.Environ(), helperVars("terminal", "PS1=$ ")...)
	term.Attach(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return term, c
}

// counting counts the interrupts that reach the command.
var counting = helperEnv + `=counter exec "` + exe + `"`

// TestInterrupt: Ctrl-C reaches the command, and once only, also where the
// program passes its own on.
func TestInterrupt(t *testing.T) {
	for _, how := range []string{"plain", "forward"} {
		t.Run(how, func(t *testing.T) {
			leaks(t)
			term, c := atTerminal(t, how, counting)
			term.Await("<ready>")
			for i := range 3 {
				term.Type("\x03")
				term.Await(fmt.Sprintf("<interrupt %d>", i+1))
				// What would have doubled it has come by now: it goes the same way as
				// the answer to this.
				term.Type("count\n")
				term.Await(fmt.Sprintf("<count %d>", i+1))
			}
			term.Type("end\n")
			term.Await("embedder is done")
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
			if strings.Contains(term.Screen(), "<interrupt 4>") {
				t.Errorf("more interrupts than keys:\n%s", term.Screen())
			}
		})
	}
}

// TestInterruptEnds: without a handler the command ends, and Wait reports the signal.
func TestInterruptEnds(t *testing.T) {
	leaks(t)
	term, c := atTerminal(t, "plain", `echo "<ready>"; exec sleep 1000`)
	term.Await("<ready>")
	term.Type("\x03")
	term.Await("signal: interrupt")
	if err := c.Wait(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("got %v", err)
	}
}

// TestQuit: Ctrl-\ too.
func TestQuit(t *testing.T) {
	leaks(t)
	term, _ := atTerminal(t, "plain", `trap 'echo "<quit>"; exit 0' QUIT; echo "<ready>"; `+idle)
	term.Await("<ready>")
	term.Type("\x1c")
	term.Await("<quit>")
}

// TestStop: a shell outside stops the command with Ctrl-Z and continues it.
func TestStop(t *testing.T) {
	leaks(t)
	term := testenv.NewTerminal(t)
	c := exec.Command("sh", "-i")
	c.Env = append(os.Environ(), helperVars("terminal", "PS1=<prompt>", "ENV=")...)
	term.Attach(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	term.Await("<prompt>")
	term.Type(exe + ` plain 'echo "<""ready>"; while read x; do echo "<got $x>"; [ "$x" = end ] && exit 0; done'` + "\n")
	term.Await("<ready>")
	group := term.Foreground()
	var members []testenv.Process
	for _, p := range testenv.Processes() {
		if p.Group == group {
			members = append(members, p)
		}
	}
	if len(members) < 3 {
		t.Errorf("in the foreground are only %+v", members)
	}
	term.Type("one\n")
	term.Await("<got one>")
	for _, word := range []string{"two", "three"} {
		term.Type("\x1a")
		term.Await("Stopped")
		testenv.Eventually(t, "the command stops", func() bool {
			for _, p := range testenv.Processes() {
				if p.Group == group && p.Name == "sh" && p.State == "T" {
					return true
				}
			}
			return false
		})
		testenv.Eventually(t, "the shell is in the foreground", func() bool { return term.Foreground() != group })
		term.Type("fg\n")
		testenv.Eventually(t, "the command is in the foreground", func() bool { return term.Foreground() == group })
		term.Type(word + "\n")
		term.Await("<got " + word + ">")
	}
	term.Type("end\n")
	term.Await("embedder is done")
	term.Type("exit\n")
	_ = c.Wait()
}

// TestWindow: the command learns of a new size of the window.
func TestWindow(t *testing.T) {
	leaks(t)
	term, _ := atTerminal(t, "plain", `trap 'echo "<size $(stty size)>"' WINCH; echo "<ready>"; `+idle)
	term.Await("<ready>")
	term.Resize(33, 101)
	term.Await("<size 33 101>")
	term.Resize(25, 80)
	term.Await("<size 25 80>")
}

// TestControllingTerminal: /dev/tty works, unless the command has a session of its own.
func TestControllingTerminal(t *testing.T) {
	leaks(t)
	const script = `(echo "<through tty>" > /dev/tty) 2>/dev/null || echo "<no tty>"; test -t 0 && echo "<a terminal>"; echo "<done>"`
	term, _ := atTerminal(t, "plain", script)
	term.Await("<done>")
	if s := term.Screen(); !strings.Contains(s, "<through tty>") || !strings.Contains(s, "<a terminal>") {
		t.Errorf("got %s", s)
	}
	term, _ = atTerminal(t, "session", script)
	term.Await("<done>")
	if s := term.Screen(); !strings.Contains(s, "<no tty>") || !strings.Contains(s, "<a terminal>") {
		t.Errorf("got %s", s)
	}
}

// TestPushedInput: no command can put input into the caller's terminal, with the filter or in a session of its own.
// Without both, the kernel may allow it. With the filter it cannot make the terminal useless either.
func TestPushedInput(t *testing.T) {
	leaks(t)
	run := func(how string) string {
		term, c := atTerminal(t, how, `exec "`+exe+`"`)
		term.Await("embedder is done")
		_ = c.Wait()
		return term.Screen()
	}
	if s := run("filter"); strings.Count(s, ": EPERM") != 6 {
		t.Errorf("with the filter: %s", s)
	}
	if s := run("session"); strings.Contains(s, "ioctl 0x5412: done") {
		t.Errorf("in a session of its own: %s", s)
	}
	legacy, _ := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti")
	s := run("plain")
	for _, what := range [...]string{"stop: done", "graphics: ENOTTY", "switch: ENOTTY"} {
		if !strings.Contains(s, what) {
			t.Errorf("the control: %s", s)
		}
	}
	if !strings.Contains(s, "discipline: done") && !strings.Contains(s, "discipline: EINVAL") { // a kernel without N_NULL
		t.Errorf("the control: %s", s)
	}
	if !strings.Contains(s, "ioctl 0x5412: done") && strings.TrimSpace(string(legacy)) == "1" {
		t.Errorf("the control: %s", s)
	}
}
