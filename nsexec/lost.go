//go:build linux

package nsexec

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A program that embeds this package may close all descriptors that it does not know, for example before it executes
// another program, and go on. The numbers of the launcher's socket, of the sandbox that waits for a command, and of the
// mount table then belong to other files: a message would go to somebody else, and closing would close somebody else's
// file. So Start checks the identity of what was kept since the Start before (sys.FD.ID). What it does not find is
// forgotten, and made again.

// left are the objects of package os with descriptors that are not theirs any more. Their finalizers would close these.
var left struct {
	sync.Mutex
	objects []any
}

// leave keeps an object for ever.
func leave(object any) {
	left.Lock()
	defer left.Unlock()
	left.objects = append(left.objects, object)
}

// number is the descriptor of an open file, which stays as it is: Fd would make it wait. None: it was closed.
func number(f *os.File) sys.FD {
	fd := sys.None
	if f == nil {
		return fd
	}
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(n uintptr) { fd = sys.FD(n) })
	}
	return fd
}

// handle is the descriptor of a process. None: it has none.
func handle(p *os.Process) sys.FD {
	fd := sys.None
	_ = p.WithHandle(func(n uintptr) { fd = sys.FD(n) })
	return fd
}

// dismiss closes a file, unless its descriptor is another file's.
func dismiss(f *os.File, was sys.FileID) {
	if fd := number(f); fd.Forget(was) {
		_ = f.SetDeadline(time.Unix(1, 0)) // for those who wait for it
		leave(f)
		return
	}
	_ = f.Close()
}

// reap waits for a launcher, which ends by itself, but not for ever.
func reap(pid int) {
	for until := time.Now().Add(launcherEnd); time.Now().Before(until); time.Sleep(time.Millisecond) {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if got != 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// identify notes which files a sandbox has while it waits for a command.
func (s *clone) identify() {
	fd := number(s.status)
	s.ids = [...]sys.FileID{s.sock.ID(), fd.ID()}
}

// forgetLost forgets those that are not open any more, and reports whether there were any.
func (s *clone) forgetLost() (lost bool) {
	if s.ids == ([2]sys.FileID{}) {
		return false
	}
	lost = s.sock.Forget(s.ids[0])
	if fd := number(s.status); fd.Forget(s.ids[1]) {
		dismiss(s.status, s.ids[1])
		s.status = nil
		lost = true
	}
	return lost
}

// lostCheck is how often Wait looks whether what it reads from is still there, once the context has ended.
const lostCheck = 200 * time.Millisecond

// identify notes which file says how the command ends, and the one that is its process's handle.
func (c *Cmd) identify() {
	status, process := number(c.sb.status), handle(c.Process)
	c.sb.ids[1], c.handle = status.ID(), process.ID()
}

// lostHandle reports whether the handle of the command's process is another file's: a signal could reach another
// process, and that would be waited for.
func (c *Cmd) lostHandle() bool {
	fd := handle(c.Process)
	return c.handle != (sys.FileID{}) && fd >= 0 && fd.Forget(c.handle)
}

// closeStatus closes the status pipe at the end.
func (s *clone) closeStatus() {
	if s.ids[1] == (sys.FileID{}) {
		_ = s.status.Close()
		return
	}
	dismiss(s.status, s.ids[1])
}

// tell waits until Wait takes the result of watch. Where the status pipe is lost, no report ends Wait, and the context
// has to.
func (c *Cmd) tell(err error) {
	check := time.NewTicker(lostCheck)
	defer check.Stop()
	for {
		select {
		case c.ctxDone <- err:
			return
		case <-check.C:
		}
		if fd := number(c.sb.status); fd >= 0 && fd.Forget(c.sb.ids[1]) {
			_ = c.Signal(syscall.SIGKILL)
			_ = c.sb.status.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// byNumber calls f with a new handle of the command's process, because the one of package os is lost. A later process
// with the same number is no child that can be waited for.
func (c *Cmd) byNumber(f func(handle sys.FD) error) error {
	fd, err := unix.PidfdOpen(c.Process.Pid, 0)
	handle := sys.FD(fd)
	if err == nil {
		defer handle.Close()
		err = sys.Retry(func() error { return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) })
	}
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ECHILD) {
		return os.ErrProcessDone
	}
	if err != nil {
		return err
	}
	return f(handle)
}

// waitByNumber waits for the command's process without a handle.
func (c *Cmd) waitByNumber() (*os.ProcessState, error) {
	leave(c.Process)
	var ws syscall.WaitStatus
	err := sys.Retry(func() error { _, err := syscall.Wait4(c.Process.Pid, &ws, 0, nil); return err })
	if err != nil {
		return nil, os.NewSyscallError("wait", err)
	}
	return c.newState(ws)
}
