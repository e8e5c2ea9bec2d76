//go:build linux

package nsexec

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestBegunEnded: a sandbox that was begun before main and ended by itself before it received its work could not make
// its namespaces. Another one is made, which says why. The control: one that was killed meanwhile stays dead.
func TestBegunEnded(t *testing.T) {
	for script, want := range map[string]bool{"read line; exit 125": true, "read line; kill -9 $$": false} {
		s := begunClone(t, script)
		c := Command("/bin/true")
		p := c.beginning()
		p.inherit = true
		again := errors.New("another one is made")
		null := nullFile(t)
		_, err := c.complete(s, p, []int{null, null, null}, func(context.Context, *prog.Program, []int) (int, error) { return 0, again })
		if got := errors.Is(err, again); got != want {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func nullFile(t *testing.T) int {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}

// begunClone is a process in place of a sandbox: it runs a script, whose read(1) ends when its work is on its socket,
// but not received.
func begunClone(t *testing.T, script string) *clone {
	t.Helper()
	ours, theirs, err := sys.SeqPacket()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := statusPipe()
	if err != nil {
		t.Fatal(err)
	}
	socket, status := os.NewFile(uintptr(theirs), "socket"), os.NewFile(uintptr(w), "status")
	defer status.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.ExtraFiles = []*os.File{socket, status}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			fds := []unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, int(testenv.Patience.Milliseconds())); err != unix.EINTR {
				break
			}
		}
		_ = socket.Close()
		_, _ = io.WriteString(stdin, "\n")
		_ = stdin.Close()
	}()
	return &clone{pid: cmd.Process.Pid, sock: ours, status: r, waited: true, mounts: true, ctx: t.Context(), first: &prog.Program{}}
}
