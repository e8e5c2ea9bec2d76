//go:build linux

package broker

import (
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// The threads that end are none that have started somebody: for the kernel they are the parents.
func TestApart(t *testing.T) {
	fd, err := thread(unix.Getpid()).children()
	if err != nil {
		testenv.Skip(t, "CONFIG_PROC_CHILDREN", "the kernel does not list the children of a thread")
	}
	_ = unix.Close(fd)
	children := make([]*exec.Cmd, 8)
	var wg sync.WaitGroup
	for i := range children {
		wg.Go(func() {
			c := exec.Command("sleep", "1000")
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := c.Start(); err != nil {
				t.Error(err)
				return
			}
			children[i] = c
		})
	}
	wg.Wait()
	for range 100 {
		apart(func() {})
	}
	for _, c := range children {
		if c == nil {
			continue
		}
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, c.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo != 0 {
			t.Errorf("a child has ended: %v", err)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}
