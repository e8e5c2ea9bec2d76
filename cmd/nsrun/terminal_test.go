//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// session is nsrun at a terminal, in a project of its own.
type session struct {
	*testenv.Terminal
	cmd     *exec.Cmd
	project string
}

func atTerminal(t *testing.T, args ...string) *session {
	t.Helper()
	testenv.Leaks(t, reap)
	return atTerminalWith(t, nil, args...)
}

// atTerminalWith is atTerminal with more variables, after Leaks.
func atTerminalWith(t *testing.T, env []string, args ...string) *session {
	t.Helper()
	s := preparedTerminal(t, env, args...)
	s.start(t)
	return s
}

// preparedTerminal is atTerminalWith before the start.
func preparedTerminal(t *testing.T, env []string, args ...string) *session {
	t.Helper()
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/old: old\n")
	s := &session{Terminal: testenv.NewTerminal(t), project: filepath.Join(dir, "p")}
	s.cmd = exec.Command(filepath.Join(bin, "nsrun"), args...)
	s.cmd.Dir = s.project
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "LC_ALL=C.UTF-8", "PAGER=cat", "TERM=xterm",
		"GORACE=atexit_sleep_ms=0"} // else a second for each process
	s.cmd.Env = append(s.cmd.Env, env...)
	s.Attach(s.cmd)
	return s
}

func (s *session) start(t *testing.T) {
	t.Helper()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
}

// ends waits for the end and for all that was written, and compares the exit status.
func (s *session) ends(t *testing.T, status int) {
	t.Helper()
	_ = s.cmd.Wait()
	_ = s.Slave().Close()
	testenv.Eventually(t, "nobody has the terminal", s.Ended)
	if got := s.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d, want %d; the terminal shows\n%s", got, status, s.Screen())
	}
}

func (s *session) has(name string) bool {
	_, err := os.Lstat(filepath.Join(s.project, name))
	return err == nil
}

// TestTerminalName: programs find the name of the caller's terminal, open it, and find it in variables. They cannot
// change its node.
func TestTerminalName(t *testing.T) {
	testenv.Leaks(t, reap)
	const script = "tty; echo variable $GPG_TTY, $OTHER; echo through >$GPG_TTY; chmod 666 $(tty) 2>/dev/null || echo kept"
	for _, c := range []struct {
		name, script, want string
		flags              []string
	}{
		{name: "all", script: script, want: "/dev/console\r\nvariable /dev/console, see /dev/pts\r\nthrough\r\nkept\r\n"},
		{name: "standard input alone", script: "(tty; echo variable $GPG_TTY, $OTHER) | cat", // what goes past cat comes sooner or later
			want: "/dev/console\r\nvariable /dev/console, see /dev/pts\r\n"},
		{name: "limited output", flags: []string{"--output", "1M"}, script: "tty", want: "/dev/console\r\n"},
		{name: "nested", flags: []string{"--project", ".", "--allow-userns"}, script: "./nsrun run -q --discard --project . -- tty", want: "/dev/console\r\n"},
		{name: "strict", flags: []string{"--preset", "strict"}, script: "tty; echo ends", want: "not a tty\r\nends\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "nested" {
				testenv.NeedUser(t)
			}
			bin, dir := installed(t), testenv.Dir(t)
			testenv.Tree(t, dir, "home/", "p/")
			if out, err := exec.Command("cp", "-L", filepath.Join(bin, "nsrun"), filepath.Join(dir, "p")).CombinedOutput(); err != nil { // /tmp is another one inside
				t.Fatalf("%v: %s", err, out)
			}
			term := testenv.NewTerminal(t)
			own, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(term.Slave().Fd())))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(filepath.Join(bin, "nsrun"), append(append([]string{"run", "-q", "--discard"}, c.flags...), "-c", c.script)...)
			cmd.Dir = filepath.Join(dir, "p")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GPG_TTY=" + own, "OTHER=see /dev/pts"}
			term.Attach(cmd)
			if err := cmd.Run(); err != nil {
				t.Errorf("%v; the terminal shows\n%s", err, term.Screen())
			}
			term.Await(c.want)
		})
	}
}

// TestInterruptedStart: Ctrl-C while the sandbox is made ends the command, which was not there to get it.
func TestInterruptedStart(t *testing.T) {
	testenv.Leaks(t, reap)
	block, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer release.Close()
	made, info, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	s := &session{Terminal: testenv.NewTerminal(t)}
	s.cmd = exec.Command(filepath.Join(installed(t), "nsrun"), "--ro-bind", "/", "/", "--unshare-pid", "--forward-signals",
		"--block-fd", "3", "--info-fd", "4", "sleep", "60")
	s.cmd.ExtraFiles = []*os.File{block, info}
	s.Attach(s.cmd)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	block.Close()
	info.Close()
	if _, err := made.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.Type("\x03")
	s.Await("^C")
	release.Close()
	s.ends(t, 130)
}

// TestAsk: at a terminal, nsrun asks what to do with the changes. Only a clear answer does anything.
func TestAsk(t *testing.T) {
	testenv.Once(t)
	for _, c := range []struct {
		answer, says string
		committed    bool
	}{
		{"c\n", "committed 1 change", true},
		{"Commit\n", "committed 1 change", true},
		{"d\n", "discarded 1 change", false},
		{"k\n", "kept 1 change", false},
		{"\n", "kept 1 change", false},
		{"x\n", "kept 1 change", false},
		{"y\n", "kept 1 change", false},
		{"cancel\n", "kept 1 change", false},
		{"\x04", "kept 1 change", false},
	} {
		t.Run(strconv.Quote(c.answer), func(t *testing.T) {
			s := atTerminal(t, "run", "--", "touch", "new")
			s.Await("commit, discard or keep (r: review, v: diff, ?: help)? [c/d/K] ")
			s.Type(c.answer)
			s.ends(t, 0)
			s.Await(c.says)
			if s.has("new") != c.committed {
				t.Errorf("in the project: %v", s.has("new"))
			}
		})
	}
}

// TestDuration: the report tells how long the command took, not how long somebody thought about
// the question.
func TestDuration(t *testing.T) {
	started := time.Now()
	s := atTerminal(t, "run", "--report", "../report.json", "--", "touch", "new")
	s.Await("[c/d/K] ")
	asked := time.Since(started)
	for time.Since(started) <= 2*asked { // to think takes longer than all before it
		n := strings.Count(s.Screen(), "[c/d/K] ")
		s.Type("?\n")
		testenv.Eventually(t, "the next question", func() bool { return strings.Count(s.Screen(), "[c/d/K] ") > n })
	}
	s.Type("d\n")
	s.ends(t, 0)
	b, err := os.ReadFile(filepath.Join(s.project, "../report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil || r.DurationMS > asked.Milliseconds() {
		t.Errorf("ran %d ms, and %s passed before the question: %v", r.DurationMS, asked, err)
	}
}

// TestAskMore: before the decision the diff can be seen, and the changes reviewed.
func TestAskMore(t *testing.T) {
	testenv.Once(t)
	s := atTerminal(t, "run", "--", "sh", "-c", "echo more >new; mv old older")
	s.Await("nsrun: R old → older\r\nnsrun: A new\r\n")
	s.Await("[c/d/K] ")
	s.Type("?\n")
	s.Await("nsrun: r: choose changes one by one")
	s.AwaitTimes("[c/d/K] ", 2)
	s.Type("v\n")
	s.Await("+more")
	s.AwaitTimes("[c/d/K] ", 3)
	s.Type("r\n")
	s.Await("\x1b[?1049h") // the review's window
	s.Type("q")
	s.ends(t, 0)
	s.Await("nsrun: kept 3 changes: nsrun commit ")
	if s.has("new") || !s.has("old") {
		t.Error("something was committed")
	}
}

// TestAskAgain: when nsrun continues after Ctrl-Z, it asks again, or nobody would know that it waits.
func TestAskAgain(t *testing.T) {
	testenv.Once(t)
	term, shell := jobControl(t)
	term.Type("nsrun run -- touch new\n")
	term.AwaitTimes("[c/d/K] ", 1)
	term.Type("\x1a")
	term.Await("Stopped")
	back(term)
	term.Type("fg\n")
	term.AwaitTimes("[c/d/K] ", 2)
	term.Type("d\n")
	term.Await("discarded 1 change")
	leave(t, term, shell)
}

// TestTypeAhead: what was typed for the command answers no question.
func TestTypeAhead(t *testing.T) {
	s := atTerminal(t, "run", "--", "sh", "-c", "touch new; echo ready; exec sleep 1000")
	s.Await("ready")
	s.Type("c\n\x03")
	s.Await("[c/d/K] ")
	s.Type("d\n")
	s.ends(t, 128+int(syscall.SIGINT))
	if s.has("new") {
		t.Fatal("the change was committed without a yes")
	}
	s.Await("discarded 1 change")
}

// TestLeftRaw: after a command that leaves the terminal in raw mode, the Enter key
// still ends an answer.
func TestLeftRaw(t *testing.T) {
	s := atTerminal(t, "run", "--", "sh", "-c", "touch new; stty raw -echo")
	s.Await("[c/d/K] ")
	s.Type("c\r")
	s.Await("committed 1 change")
	s.ends(t, 0)
	if !s.has("new") {
		t.Errorf("not committed; the terminal shows\n%s", s.Screen())
	}
}

// TestLeftFlags: flags that a command sets on its standard input, which it shares with our caller, are not set
// afterwards. The control is the same command without nsrun.
func TestLeftFlags(t *testing.T) {
	const dd = "exec dd iflag=nonblock count=0 status=none"
	waits := func(term *testenv.Terminal) bool {
		flags := -1
		c, err := term.Slave().SyscallConn() // Fd would clear the flag
		if err == nil {
			err = c.Control(func(fd uintptr) { flags, _ = unix.FcntlInt(fd, unix.F_GETFL, 0) })
		}
		if err != nil || flags < 0 {
			t.Fatal(err)
		}
		return flags&unix.O_NONBLOCK == 0
	}
	for _, mode := range []string{"--keep", "--direct"} {
		s := atTerminal(t, "run", mode, "--", "sh", "-c", dd)
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s: %v; the terminal shows\n%s", mode, err, s.Screen())
		}
		if !waits(s.Terminal) {
			t.Errorf("%s: the terminal is left without waiting", mode)
		}
	}
	term := testenv.NewTerminal(t)
	c := exec.Command("sh", "-c", dd)
	term.Attach(c)
	if err := c.Run(); err != nil || waits(term) {
		t.Errorf("the control: %v, waits: %t", err, waits(term))
	}
}

// TestLeftExclusive: after a command that lets nobody open the terminal again, everybody can. Root always can.
func TestLeftExclusive(t *testing.T) {
	const exclusive = `import fcntl, sys; fcntl.ioctl(0, 0x540c)` // TIOCEXCL
	if _, err := exec.LookPath("python3"); err != nil {
		testenv.Skip(t, "python3", err.Error())
	}
	is := func(term *testenv.Terminal) bool {
		n := 0
		c, err := term.Slave().SyscallConn()
		if err == nil {
			cerr := c.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCGEXCL) })
			err = errors.Join(err, cerr)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n != 0
	}
	s := atTerminal(t, "run", "--keep", "--", "python3", "-c", exclusive)
	if err := s.cmd.Wait(); err != nil || is(s.Terminal) {
		t.Errorf("%v, exclusive: %t; the terminal shows\n%s", err, is(s.Terminal), s.Screen())
	}
	term := testenv.NewTerminal(t)
	c := exec.Command("python3", "-c", exclusive)
	term.Attach(c)
	if err := c.Run(); err != nil || !is(term) {
		t.Errorf("the control: %v, exclusive: %t", err, is(term))
	}
}

// TestLeftSize: a window size that nobody can work with does not stay after a command that set it. A size that somebody
// could have given the window stays. The control is the same command without nsrun.
func TestLeftSize(t *testing.T) {
	size := func(term *testenv.Terminal) string {
		var w *unix.Winsize
		c, err := term.Slave().SyscallConn()
		if err == nil {
			cerr := c.Control(func(fd uintptr) { w, err = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) })
			err = errors.Join(err, cerr)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%dx%d", w.Row, w.Col)
	}
	testenv.Leaks(t, reap)
	for command, want := range map[string]string{
		"stty rows 1 cols 1":      "24x80",
		"stty rows 0 cols 0":      "24x80",
		"stty cols 3":             "24x80",
		"stty rows 65535":         "24x80",
		"stty rows 50 cols 132":   "50x132",
		"stty rows 5 cols 20":     "5x20",
		"stty rows 2 cols 10":     "2x10",
		"stty cols 1; stty -echo": "24x80",
	} {
		s := preparedTerminal(t, nil, "run", "--keep", "--", "sh", "-c", command)
		s.Resize(24, 80)
		s.start(t)
		err := s.cmd.Wait()
		if got := size(s.Terminal); err != nil || got != want {
			t.Errorf("%s: %v, %s, want %s; the terminal shows\n%s", command, err, got, want, s.Screen())
		}
	}
	term := testenv.NewTerminal(t)
	c := exec.Command("stty", "rows", "1", "cols", "1")
	term.Attach(c)
	if err := c.Run(); err != nil || size(term) != "1x1" {
		t.Errorf("the control: %v, %s", err, size(term))
	}
}

// TestLeftPriority: a command cannot change the priority of its caller's processes: neither of the session at the
// terminal nor of the process group. The control are the same commands without nsrun.
func TestLeftPriority(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/")
	looked := func(before string) string {
		// The kernel takes ten changes a second of all ordinary users.
		const change = "for i in 1 2 3 4 5; do echo 11 >/proc/self/autogroup && break; sleep 0.1; done; renice -n 13 -g 0 >/dev/null"
		term := testenv.NewTerminal(t)
		c := exec.Command("sh", "-c", before+"sh -c '"+change+"' 2>&-; cat /proc/self/autogroup; nice")
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		term.Attach(c)
		if err := c.Run(); err != nil {
			t.Errorf("%v; the terminal shows\n%s", err, term.Screen())
		}
		_ = term.Slave().Close()
		testenv.Eventually(t, "nobody has the terminal", term.Ended)
		return term.Screen()
	}
	_, err := os.Stat("/proc/self/autogroup") // else the kernel gives sessions no priority
	if screen := looked(""); !strings.Contains(screen, "\n13") || err == nil && !strings.Contains(screen, " nice 11") {
		t.Errorf("the control: %s", screen)
	}
	if screen := looked(filepath.Join(bin, "nsrun") + " run --direct -- "); strings.Contains(screen, "\n13") || strings.Contains(screen, " nice 11") {
		t.Errorf("the priority is changed: %s", screen)
	}
}

// TestLeftBackground: a shell that took the terminal and was killed does not keep
// the question from being answered.
func TestLeftBackground(t *testing.T) {
	s := atTerminal(t, "run", "--", "bash", "--norc", "-ic", "touch new; kill -9 $$")
	s.Await("[c/d/K] ")
	s.Type("c\n")
	s.ends(t, 128+int(syscall.SIGKILL))
	if !s.has("new") {
		t.Errorf("not committed; the terminal shows\n%s", s.Screen())
	}
}

// TestAskNot: nsrun does not ask if there is a flag, or if the command changed nothing.
func TestAskNot(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--keep", "--", "touch", "new"}, {"run", "--commit", "touch", "new"},
		{"run", "--discard", "touch", "new"}, {"run", "true"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := atTerminal(t, args...)
			s.ends(t, 0)
			if strings.Contains(s.Screen(), "[c/d/K]") {
				t.Errorf("the terminal shows\n%s", s.Screen())
			}
		})
	}
}

// TestHostNetwork takes a yes, every time.
func TestHostNetwork(t *testing.T) {
	for _, c := range []struct {
		answer string
		status int
	}{{"y\n", 0}, {"yes\n", 0}, {"n\n", 125}, {"\n", 125}, {"\x04", 125}} {
		t.Run(strconv.Quote(c.answer), func(t *testing.T) {
			s := atTerminal(t, "run", "--net", "host", "--commit", "--", "sh", "-c", "readlink /proc/self/ns/net; touch new")
			s.Await("Run command with network access: sh -c ")
			s.Await("[y/N] ")
			s.Type(c.answer)
			s.ends(t, c.status)
			host, err := os.Readlink("/proc/self/ns/net")
			if err != nil {
				t.Fatal(err)
			}
			if ran := strings.Contains(s.Screen(), host); ran != (c.status == 0) || s.has("new") != ran {
				t.Errorf("ran: %v; the terminal shows\n%s", ran, s.Screen())
			}
		})
	}
}

// TestInterrupt: Ctrl-C is the command's; what it changed is not lost.
func TestInterrupt(t *testing.T) {
	s := atTerminal(t, "run", "--", "sh", "-c", "touch new; echo ready; exec sleep 1000")
	s.Await("ready")
	s.Type("\x03")
	s.Await("[c/d/K] ")
	s.Type("c\n")
	s.ends(t, 128+int(syscall.SIGINT))
	if !s.has("new") {
		t.Error("the change is lost")
	}
}

// TestInterruptedQuestion: Ctrl-C at the question, or Ctrl-\, keeps the session, says so, and ends nsrun as a shell's
// loop expects it.
func TestInterruptedQuestion(t *testing.T) {
	for _, key := range []string{"\x03", "\x1c"} {
		t.Run(strconv.Quote(key), func(t *testing.T) { interruptQuestion(t, key) })
	}
}

func interruptQuestion(t *testing.T, key string) {
	s := atTerminal(t, "run", "--report", "../report.json", "--", "touch", "new")
	s.Await("[c/d/K] ")
	s.Type(key)
	s.Await("kept 1 change: nsrun commit ")
	s.ends(t, -1)
	if got := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %#x", got)
	}
	if b, err := os.ReadFile(filepath.Join(s.project, "../report.json")); err != nil || !strings.Contains(string(b), `"state": "kept"`) {
		t.Errorf("the report: %s, %v", b, err)
	}
}

// jobControl is a shell with job control, as one sits in front of it.
func jobControl(t *testing.T) (*testenv.Terminal, *exec.Cmd) {
	t.Helper()
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/")
	term := testenv.NewTerminal(t)
	sh := exec.Command("bash", "--norc", "--noprofile", "-i")
	sh.Dir = filepath.Join(dir, "p")
	sh.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "PS1=prompt> ", "HISTFILE=", "TERM=dumb"}
	term.Attach(sh)
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sh.Process.Kill()
		_ = sh.Wait()
	})
	term.Await("prompt> ")
	return term, sh
}

// back waits until the shell has the terminal back. Input that is typed meanwhile may get lost, so it types two empty
// lines, of which one arrives.
func back(term *testenv.Terminal) {
	term.AwaitTimes("prompt> ", 2)
	term.Type("\n\n")
	term.AwaitTimes("prompt> ", 3)
}

// leave ends a shell. What is typed before it has the terminal back may get lost, so that is typed again.
func leave(t *testing.T, term *testenv.Terminal, sh *exec.Cmd) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		_ = sh.Wait()
		close(done)
	}()
	for range 60 {
		term.Type("exit\n")
		select {
		case <-done:
			return
		case <-time.After(time.Second):
		}
	}
	t.Errorf("the shell does not end: %q", term.Screen())
	_ = sh.Process.Kill()
	<-done
}

// TestStop: Ctrl-Z stops the command and nsrun, and both go on together.
func TestStop(t *testing.T) {
	term, sh := jobControl(t)
	term.Type("nsrun run -- sh -c 'echo rea''dy; read x; echo \"got $x\"'\n")
	term.Await("\nready")
	term.Type("\x1a")
	term.Await("Stopped")
	back(term)
	term.Type("fg\n")
	term.Type("hello\n")
	term.Await("\ngot hello")
	leave(t, term, sh)
}

// TestStopByCommand: a command that stops its process group stops nsrun too, as any other
// program that runs a command, and both go on together.
func TestStopByCommand(t *testing.T) {
	term, sh := jobControl(t)
	term.Type("nsrun run -- sh -c 'kill -STOP 0; echo \"go\"ne on'\n")
	term.Await("Stopped")
	back(term)
	term.Type("fg\n")
	term.Await("\ngone on")
	leave(t, term, sh)
}

// TestStoppedTimeout: the time of a command that has stopped nsrun is kept by PID 1, also
// for a process that has left the group. How long it takes to stop nsrun depends on the machine.
func TestStoppedTimeout(t *testing.T) {
	testenv.Once(t)
	for limit := 300 * time.Millisecond; !stoppedTimeout(t, limit); limit *= 4 {
	}
}

// stoppedTimeout reports whether the command has stopped nsrun before its time was over.
func stoppedTimeout(t *testing.T, limit time.Duration) bool {
	term, sh := jobControl(t)
	over := "timed out after " + limit.String()
	term.Type("nsrun run --timeout " + limit.String() + " -- sh -c 'setsid sleep 1000 & kill -STOP 0'; echo status $?.\n")
	testenv.Eventually(t, "it is stopped, or its time is over", func() bool {
		return strings.Contains(term.Screen(), "Stopped") || strings.Contains(term.Screen(), over)
	})
	if !strings.Contains(term.Screen(), "Stopped") {
		return false
	}
	var nsrun, pid1 testenv.Process
	testenv.Eventually(t, "the end of all in the sandbox, while nsrun is stopped", func() bool {
		left := false
		for _, p := range testenv.Processes() {
			switch {
			case p.Parent == sh.Process.Pid:
				nsrun = p
			case nsrun.Pid != 0 && p.Parent == nsrun.Pid:
				pid1 = p
				left = left || p.State != "Z"
			case pid1.Pid != 0 && p.Parent == pid1.Pid:
				left = true
			}
		}
		return nsrun.State == "T" && pid1.Pid != 0 && !left
	})
	term.Type("fg\n")
	term.Await(over)
	leave(t, term, sh)
	return true
}
