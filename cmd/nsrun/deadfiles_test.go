//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// deadScene is a project, a home directory, and a file system that stops to answer.
type deadScene struct {
	*testenv.DeadFUSE
	dir, bin string
	env      []string
}

func newDeadScene(t *testing.T, state string) *deadScene {
	t.Helper()
	s := &deadScene{DeadFUSE: testenv.NewDeadFUSE(t), dir: testenv.Dir(t), bin: installed(t)}
	testenv.Tree(t, s.dir, "p/a", "home/", "state/")
	if state == "" {
		state = filepath.Join(s.dir, "state")
	}
	s.env = []string{"HOME=" + filepath.Join(s.dir, "home"), "XDG_STATE_HOME=" + strings.ReplaceAll(state, "DEAD", s.Dir), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	return s
}

func (s *deadScene) command(words string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, "nsrun"), strings.Fields(strings.ReplaceAll(words, "DEAD", s.Dir))...)
	c.Dir, c.Env = filepath.Join(s.dir, "p"), s.env
	return c
}

// end runs nsrun, and sends it the signals: the first one when it waits for the file system, each later one when it has
// said that this ends it. It returns the exit status as a shell has it.
func (s *deadScene) end(t *testing.T, words string, signals ...syscall.Signal) (status int, said string) {
	t.Helper()
	c := s.command(words)
	name := filepath.Join(s.dir, "said")
	out, err := os.Create(name)
	if err != nil {
		t.Error(err)
		return -1, ""
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Error(err)
		return -1, ""
	}
	hangs := time.AfterFunc(testenv.Patience, func() { _ = c.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-s.Asked:
	case err := <-ended:
		t.Errorf("it did not wait: %v", err)
		ended <- err
	}
	for i, sig := range signals {
		if i > 0 && sig != unix.SIGUSR1 && !testenv.Poll(testenv.Patience, func() bool {
			b, _ := os.ReadFile(name)
			return strings.Contains(string(b), "another Ctrl-C ends nsrun at once")
		}) {
			t.Errorf("nothing was said after the first signal")
		}
		_ = c.Process.Signal(sig)
	}
	<-ended
	if !hangs.Stop() {
		t.Errorf("it had to be killed")
	}
	b, _ := os.ReadFile(name)
	status = c.ProcessState.ExitCode()
	if ws := c.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		status = 128 + int(ws.Signal())
	}
	return status, string(b)
}

// TestEndedAtDeadFiles: a signal and the time limit end nsrun where it waits for a file system that does not answer. It
// says what it waits for, if the signal does not end it at once. The cases wait at the same time.
func TestEndedAtDeadFiles(t *testing.T) {
	testenv.Leaks(t, reap)
	var running sync.WaitGroup
	defer running.Wait()
	for _, c := range []struct {
		words, state string
		signals      []syscall.Signal
		status       int
	}{
		{"run --discard -q --ro DEAD/f -- true", "", []syscall.Signal{unix.SIGINT}, 130},
		{"run --discard -q --block DEAD/f -- true", "", []syscall.Signal{unix.SIGTERM}, 143},
		{"run --discard -q -- true", "DEAD/state", []syscall.Signal{unix.SIGHUP}, 129},
		{"run --discard -q --timeout 10ms --ro DEAD/f -- true", "", nil, 124},
		{"run --keep -q --timeout 10ms --session last -- true", "DEAD/state", nil, 124},
		{"ls", "DEAD/state", []syscall.Signal{unix.SIGINT}, 130},
		{"show last", "DEAD/state", []syscall.Signal{unix.SIGTERM}, 143},
		{"watch -q DEAD/d", "", []syscall.Signal{unix.SIGTERM}, 143},
		{"--forward-signals --ro-bind / / --ro-bind DEAD/f /tmp true", "", []syscall.Signal{unix.SIGTERM}, 143},
		{"--forward-signals --ro-bind / / --ro-bind DEAD/f /tmp true", "", []syscall.Signal{unix.SIGHUP, unix.SIGUSR1}, 129},
	} {
		s := newDeadScene(t, c.state)
		s.Stop()
		running.Go(func() {
			status, said := s.end(t, c.words, c.signals...)
			silent := said == "" && len(c.signals) > 0 || strings.HasPrefix(c.words, "--")
			if says := "nsrun: waiting for " + s.Dir; status != c.status || !silent && !strings.Contains(said, says) {
				t.Errorf("%s: status %d, %s", c.words, status, said)
			}
		})
	}
}

// TestCommitAtDeadFiles: another signal ends a commit that cannot end in order. Nothing of the session is lost.
func TestCommitAtDeadFiles(t *testing.T) {
	testenv.Leaks(t, reap)
	s := newDeadScene(t, "")
	if out, err := s.command("run --keep --project DEAD -C DEAD -- touch x").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	kept := func() bool {
		out, err := s.command("ls --all --json").Output()
		return err == nil && strings.Contains(string(out), `"state": "kept"`)
	}
	if !kept() {
		t.Fatal("control: there is no session")
	}
	ids, err := filepath.Glob(filepath.Join(s.dir, "state/nsrun/sessions/2*"))
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	s.Stop()
	status, said := s.end(t, "commit "+filepath.Base(ids[0]), unix.SIGINT, unix.SIGINT)
	if status != 130 || !strings.Contains(said, "waiting for "+s.Dir) {
		t.Errorf("status %d, %s", status, said)
	}
	s.End()
	if !kept() {
		t.Error("the session is not kept")
	}
}
