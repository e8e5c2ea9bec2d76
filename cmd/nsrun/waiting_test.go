//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestCommitBehindStopped: somebody has stopped an nsrun in the middle of a commit. Other commits to the project say
// that they wait, and Ctrl-C ends them. The control is each of them after the other one has ended.
func TestCommitBehindStopped(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/a: old\n")
	project, env := filepath.Join(dir, "p"), []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + os.Getenv("PATH")}
	for name, script := range map[string]string{"a change": "echo new >a", "only a time": "touch -d 2001-01-01 a"} {
		want := "new\n"
		if name != "a change" {
			if err := os.WriteFile(filepath.Join(project, "a"), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"run", "--commit", "--", "sh", "-c", script}
		if status, out := nsrunIn(t, project, env, "run", "-q", "--discard", "true"); status != 0 { // makes the directory
			t.Fatal(status, out)
		}
		turns, err := os.OpenFile(filepath.Join(dir, "home/.local/state/nsrun/sessions/turns"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.FcntlFlock(turns.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(filepath.Join(project, "a"))
		if err != nil {
			t.Fatal(err)
		}
		// The time limit of a command is also that of its wait.
		limited := exec.Command(filepath.Join(installed(t), "nsrun"), append([]string{"run", "--timeout", "3s"}, args[1:]...)...)
		limited.Dir, limited.Env = project, env
		ended := make(chan string, 1)
		go func() {
			out, _ := limited.CombinedOutput()
			ended <- string(out)
		}()
		c := exec.Command(filepath.Join(installed(t), "nsrun"), args...)
		c.Dir, c.Env = project, env
		r, err := c.StderrPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines, said := bufio.NewScanner(r), ""
		for !strings.Contains(said, "waiting for another commit") && lines.Scan() {
			said += lines.Text() + "\n"
		}
		if err := c.Process.Signal(unix.SIGINT); err != nil {
			t.Errorf("%s: it has ended: %v\n%s", name, err, said)
		}
		for lines.Scan() {
			said += lines.Text() + "\n"
		}
		_ = c.Wait()
		if me := fmt.Sprintf("process %d (", os.Getpid()); !strings.Contains(said, me) {
			t.Errorf("%s: it does not say for which process it waits:\n%s", name, said)
		}
		if out := <-ended; limited.ProcessState.ExitCode() != 125 || !strings.Contains(out, fmt.Sprintf("that of process %d (", os.Getpid())) {
			t.Errorf("%s with a time limit: %v\n%s", name, limited.ProcessState, out)
		}
		after, err := os.Stat(filepath.Join(project, "a"))
		if err != nil || !after.ModTime().Equal(before.ModTime()) || c.ProcessState.ExitCode() == 0 || !strings.Contains(said, "waiting for another commit") {
			t.Errorf("%s: exit status %d, error %v\n%s", name, c.ProcessState.ExitCode(), err, said)
		}
		turns.Close()
		if status, out := nsrunIn(t, project, env, args...); status != 0 {
			t.Errorf("%s: exit status %d\n%s", name, status, out)
		}
		after, err = os.Stat(filepath.Join(project, "a"))
		if err != nil || after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s: the control is not committed: %v", name, err)
		}
	}
}
