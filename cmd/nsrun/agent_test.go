//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// agentVariables starts an ssh-agent with the key "chosen", and returns the variables that lead to it.
func agentVariables(t *testing.T) []string {
	t.Helper()
	for _, name := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "ssh", err.Error())
		}
	}
	dir := testenv.Dir(t)
	socket := filepath.Join(dir, "agent")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testenv.Eventually(t, "the agent", func() bool { // the socket is there before it listens
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	key := filepath.Join(dir, "chosen")
	for _, args := range [][]string{{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "chosen", "-f", key}, {"ssh-add", "-q", key}} {
		add := exec.Command(args[0], args[1:]...)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return []string{"SSH_AUTH_SOCK=" + socket}
}

// signing signs, and says whether that worked.
const signing = `ssh-add -L >k.pub; echo >f; if ssh-keygen -q -Y sign -n git -f k.pub f 2>/dev/null; then echo IT IS SIGNED; else echo NOT SIGNED; fi`

const askAgent = ", once, to sign a file, a commit or the like, for git? This command in a sandbox asks for it: "

// TestAgentAsks: a signature needs the whole word, typed at the terminal, whatever the command has done to the
// terminal: raw mode without echo, colours, another foreground process group.
func TestAgentAsks(t *testing.T) {
	for _, c := range []struct {
		name, before, type_ string
		signed              bool
	}{
		{"yes", "", "yes\n", true},
		{"y", "", "y\n", false},
		{"no", "", "no\n", false},
		{"nothing", "", "\n", false},
		{"end", "", "\x04", false},
		{"raw mode", "stty raw -echo; ", "yes\r", true},
		{"no colours", `printf '\033[30;40m\033[8m\033]0;'; `, "yes\n", true},
		{"other colours", `printf '\033]4;1;#000\033\\\033]10;#000\007\033]11;#000\007\033]P0ffffff\033\\\033]8;;http://192.0.2.1\033\\\033[1$}'; `, "yes\n", true},
		{"job control", "set -m; ", "yes\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := c.before + signing
			if strings.HasPrefix(c.before, "set -m") {
				command = "set -m; sh -c '" + signing + "'"
			}
			testenv.Leaks(t, reap)
			s := atTerminalWith(t, agentVariables(t), "run", "-q", "--discard", "--allow-unix", "ssh-agent:chosen", "--", "bash", "-c", command)
			s.Await(askAgent)
			s.Await("[yes/N] ")
			m := newModel()
			before, _, _ := strings.Cut(s.Screen(), askAgent)
			if m.write(before); m.String() != "" {
				t.Errorf("the question comes while %s", m)
			}
			s.Type(c.type_)
			want := "NOT SIGNED"
			if c.signed {
				want = "IT IS SIGNED"
			}
			s.Await(want)
			s.ends(t, 0)
		})
	}
}

// TestAgentSpoof: while the question is asked, nothing in the sandbox reads from the terminal or writes to it. The
// control is the time before the question, in which the command does both.
func TestAgentSpoof(t *testing.T) {
	testenv.Leaks(t, reap)
	const loud = `(while :; do echo Continue with the tests? >/dev/tty; done) &
(while read -r line; do echo "stolen: $line"; >stolen; done </dev/tty) &
while [ ! -e stolen ]; do sleep .01; done; `
	s := atTerminalWith(t, agentVariables(t), "run", "-q", "--discard", "--allow-unix", "ssh-agent:chosen", "--", "bash", "-c", loud+signing+"; kill $(jobs -p); exit 0")
	s.Await("Continue with the tests?")
	s.Type("go\n")
	s.Await("stolen: go") // the control
	s.Await(askAgent)
	s.Await("[yes/N] ")
	after := func() string { _, rest, _ := strings.Cut(s.Screen(), "[yes/N] "); return rest }
	if testenv.Poll(500*time.Millisecond, func() bool { return strings.Contains(after(), "tests") }) {
		t.Errorf("the command writes over the question: %q", after())
	}
	s.Type("yes\n")
	s.Await("IT IS SIGNED")
	if rest := after(); strings.Contains(rest, "stolen: yes") {
		t.Errorf("the command read the answer: %q", rest)
	}
	_ = s.cmd.Process.Kill()
}

// TestAgentNoTerminal: if nobody can be asked, nothing is signed, and nsrun says so.
func TestAgentNoTerminal(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/", "home/.config/nsrun/")
	cmd := exec.Command("setsid", "-w", filepath.Join(installed(t), "nsrun"), "run", "--discard", "--report", "-", "--allow-unix", "ssh-agent:chosen", "--", "sh", "-c", signing+" >&2")
	cmd.Dir = filepath.Join(dir, "p")
	cmd.Env = append(agentVariables(t), "PATH="+os.Getenv("PATH"), "HOME="+filepath.Join(dir, "home"))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || !strings.Contains(said.String(), "NOT SIGNED") || !strings.Contains(said.String(), "for git was refused: no terminal") {
		t.Errorf("%v, %s", err, said.String())
	}
	if !strings.Contains(string(out), `"services": [`) || !strings.Contains(string(out), `"reason": "no terminal"`) {
		t.Errorf("the report: %s", out)
	}
}
