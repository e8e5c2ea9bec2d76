//go:build linux

package tools

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// typed is a task of developers at a terminal. The exit status and the files are compared, but not the screen.
type typed struct {
	name, needs, setup, run string
	keys                    []key
}

// key is typed when the screen shows, behind what the keys before were typed after.
type key struct{ after, press string }

// resize stands for a new size of the window.
const resize = "resize"

// waits is a program that says when it can be interrupted: a shell can miss a signal while it forks.
const waits = "exec awk 'BEGIN { print \"ready\"; fflush(); while (getline <\"-\") ; }'"

var typedTasks = []typed{
	{name: "the terminal's name", needs: "python3", run: "echo through >$(tty) && stty -F $(tty) size >f && python3 -c 'import os; print(os.path.samestat(os.stat(os.ttyname(0)), os.fstat(0)), os.ctermid())' >>f"},
	{name: "a password", needs: "python3", run: "python3 -c \"import getpass; open('f', 'w').write(getpass.getpass('Word: '))\"", keys: []key{{"Word: ", "secret\n"}}},
	{name: "standard input, to its end", run: "echo ready; cat >f", keys: []key{{"ready", "one\n\x04"}}},
	{name: "Ctrl-C, trapped", run: "trap 'echo got >f; exit 0' INT; echo ready; while :; do sleep 0.05; done", keys: []key{{"ready", "\x03"}}},
	{name: "Ctrl-C", run: waits, keys: []key{{"ready", "\x03"}}},
	{name: "Ctrl-\\", run: "ulimit -c 0; " + waits, keys: []key{{"ready", "\x1c"}}},
	{name: "a new window size", run: "trap 'stty size >f; exit 0' WINCH; echo ready; while :; do sleep 0.05; done", keys: []key{{"ready", resize}}},
	{name: "job control in bash", run: "bash --norc --noediting -i", keys: []key{
		{"bash-", "PS1='> '\n"}, {"\n> ", "sh -c 'echo u''p; exec cat'\n"}, {"\nup", "\x1a"}, {"Stopped", ""}, {"\n> ", "jobs >f; fg\n"}, {"fg\r\nsh -c", "\x04"}, {"> ", "exit 5\n"},
	}},
	{name: "vim at a terminal", needs: "vim", run: "vim -u NONE -N f", keys: []key{{"~", "ihello\x1b:wq\n"}}},
	{name: "less", needs: "less", setup: "seq 200 >f", run: "less f; echo $? >g", keys: []key{{"23", "G"}, {"200", "q"}}},
	{name: "git add -p at a terminal", needs: "git", setup: gitSetup + "echo more >>f", run: "git add -p; git diff --cached --stat >../p/stat", keys: []key{{"Stage this hunk", "y\n"}}},
	{name: "make, interrupted", needs: "make", setup: "cat >wait.sh <<'X'\n" + waits + "\nX\nprintf 'out:\\n\\ttouch out; exec sh wait.sh\\n' >Makefile", run: "make", keys: []key{{"ready", "\x03"}}},
	{name: "Python's prompt", needs: "python3", run: "python3 -q", keys: []key{{">>> ", "n = open('f', 'w').write('x')\n"}, {">>> ", "exit(0)\n"}}},
	{name: "tmux at a terminal", needs: "tmux", run: "tmux -S $PWD/t -f /dev/null new 'echo fir\"\"st; read x; echo got $x >f'; rm -f t", keys: []key{{"first", "hi\n"}}},
}

// TestTyped runs them natively, in a session, and in place.
func TestTyped(t *testing.T) {
	if testenv.RaceDetector || backend() != nil {
		return
	}
	testenv.NeedNamespaces(t)
	for _, k := range typedTasks {
		t.Run(k.name, func(t *testing.T) {
			testenv.TakeTurns(t)
			for program := range strings.FieldsSeq(k.needs) {
				need(t, program)
			}
			p := newPlace(t)
			p.begin(t, k.setup)
			want := p.typedRound(t, k)
			for _, how := range [...][]string{{"--commit"}, {"--direct", "--preset", "git"}} {
				args := append([]string{filepath.Join(testenv.Programs(), "nsrun"), "run", "-q", "--project", "."}, how...)
				got := p.typedRound(t, k, append(args, "--")...)
				if got.status != want.status {
					t.Errorf("%v: status %d, want %d; the terminal shows\n%s", how, got.status, want.status, got.out)
				}
				if want.status != 0 && how[0] == "--commit" {
					continue // what a command that fails has written is not committed
				}
				for _, line := range different(got.files, want.files) {
					t.Errorf("%v: %s; the terminal shows\n%s", how, line, got.out)
				}
			}
		})
	}
}

// typedRound copies the project, runs the task in it at a terminal, and looks at what came of it.
func (p place) typedRound(t *testing.T, k typed, before ...string) (r result) {
	t.Helper()
	p.copy(t)
	defer p.remove(t, p.project)
	args := append(before, "sh", "-c", k.run)
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = p.project, append(p.environ(), "TERM=xterm", "SHELL=/bin/sh")
	term := testenv.NewTerminal(t)
	term.Attach(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(testenv.Patience, func() { _ = c.Process.Kill() })
	defer stuck.Stop()
	seen := 0
	for _, k := range k.keys {
		if !testenv.Poll(testenv.Patience, func() bool { return strings.Contains(term.Screen()[seen:], k.after) }) {
			_ = c.Process.Kill()
			_ = c.Wait()
			t.Fatalf("%v: %q never came; the terminal shows\n%s", before, k.after, term.Screen())
		}
		seen += strings.Index(term.Screen()[seen:], k.after) + len(k.after)
		if k.press == resize {
			term.Resize(40, 90)
		} else {
			term.Type(k.press)
		}
	}
	_ = c.Wait()
	r.status, r.out = statusOf(c.ProcessState), term.Screen()
	r.files = files(t, p.project, false)
	return r
}
