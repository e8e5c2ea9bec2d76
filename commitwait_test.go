//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/overlay"
)

// TestCommitWait: another commit to the project does not end. The one after a command with a time limit names its
// process, and keeps the changes. The control is the commit of the kept session after the other one has ended.
func TestCommitWait(t *testing.T) {
	dir := place(t, "a: old\n")
	project, state := filepath.Join(dir, "p"), filepath.Join(dir, "sessions")
	config := nsrun.Config{Project: project, StateDir: state, After: nsrun.Commit}
	if out := sh(t, runner(t, config), "touch -d 2001-01-01 a"); out != "" { // makes the file
		t.Fatal(out)
	}
	turns, err := os.OpenFile(filepath.Join(state, "turns"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer turns.Close()
	if err := unix.FcntlFlock(turns.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	// The command must have ended by then.
	res, err := runner(t, config).Run(t.Context(), nsrun.Request{Command: "echo 1 >a", Timeout: 5 * time.Second})
	e, ok := errors.AsType[*overlay.WaitError](err)
	if !ok || e.Holder.PID != os.Getpid() || res.State != overlay.Kept || res.Session == "" || res.ExitCode != 0 {
		t.Fatalf("%+v\n%v", res, err)
	}
	if got := content(project, "a"); got != "old\n" {
		t.Errorf("committed meanwhile: %q", got)
	}
	turns.Close()
	s, err := overlay.Open(state, res.Session)
	if err == nil {
		err = errors.Join(s.Commit(t.Context()), s.Close())
	}
	if got := content(project, "a"); err != nil || got != "1\n" {
		t.Errorf("control: %q, %v", got, err)
	}
}
