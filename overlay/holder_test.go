//go:build linux

package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestHolder: a commit that waits for another one finds its process, and whether that is stopped, and waits no longer
// than it may. The control is the commit after the other one has ended.
func TestHolder(t *testing.T) {
	testenv.Leaks(t)
	s := create(t, project(t, "echo 1 >a"))
	sandbox(t, s, "echo 2 >a")
	other, err := newTurn(s.state, s.roots)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if _, err := other.take(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	commit := func(want Holder) {
		t.Helper()
		var told Holder
		err := s.CommitWith(t.Context(), CommitOptions{Wait: time.Nanosecond, Waiting: func(h Holder) { told = h }})
		e, ok := errors.AsType[*WaitError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || e.Holder != want || told != want && told != (Holder{}) {
			t.Errorf("the holder is %+v, not %+v: %v", told, want, err)
		}
		if !strings.Contains(err.Error(), "process "+fmt.Sprint(want.PID)+" (") {
			t.Errorf("the error does not name the process: %v", err)
		}
	}
	commit(holderOf(os.Getpid()))

	// The search ends in the middle of a process's descriptors.
	st, err := other.f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	room := make([]byte, holderText)
	if !other.heldBy(t.Context(), os.Getpid(), st, room) || other.heldBy(ended, os.Getpid(), st, room) {
		t.Error("a search that has ended finds the process, or one that has not ended does not")
	}

	// The open file, and with it the lock, becomes that of another process.
	c := exec.Command("sleep", "1000")
	c.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(t, other)), "turns")}
	err = c.Start()
	c.ExtraFiles[0].Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	other.f.Close()
	commit(Holder{PID: c.Process.Pid, Program: "sleep"})
	if err := c.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := Holder{PID: c.Process.Pid, Program: "sleep", Stopped: true}
	testenv.Eventually(t, "the process stops", func() bool { return holderOf(c.Process.Pid) == stopped })
	commit(stopped)
	if want := "that of " + stopped.String() + ": context deadline exceeded"; !strings.HasSuffix((&WaitError{stopped, context.DeadlineExceeded}).Error(), want) {
		t.Errorf("the error does not end with %q", want)
	}
	if s.State() == Committed {
		t.Error("it is committed")
	}
	_, _ = c.Process.Kill(), c.Wait()
	if err := s.CommitWith(t.Context(), CommitOptions{Wait: testenv.Patience}); err != nil {
		t.Errorf("the control is not committed: %v", err)
	}
}

func dup(t *testing.T, x *turn) int {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(x.f.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBlocks: a lock is the reason for a wait only if it is one of this file, and excludes one that the commit needs.
func TestBlocks(t *testing.T) {
	own, above := int64(5*2*turnHalf), int64(9*2*turnHalf)
	x := &turn{f: &tree.Handle{}, own: []int64{own}, above: []int64{above}}
	for line, want := range map[string]bool{
		"lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:77 80 95\n":   true,
		"lock:\t1: OFDLCK ADVISORY  READ -1 fe:00:77 80 95\n":    true,
		"lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:77 0 EOF\n":   true,
		"lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:77 144 159\n": true,
		"lock:\t1: OFDLCK ADVISORY  READ -1 fe:00:77 144 159\n":  false,
		"lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:77 96 111\n":  false,
		"lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:177 80 95\n":  false,
		"lock:\t1: FLOCK  ADVISORY  WRITE -1 fe:00:77 0 EOF\n":   false,
		"lock:\t1: POSIX\n":     false,
		"pos:\t0\n":             false,
		"lock: 1 2 3 4 5 6 x y": false,
	} {
		if x.blocks(line, 77) != want {
			t.Errorf("%q: it is %v that the commit waits for it", line, !want)
		}
	}
}
