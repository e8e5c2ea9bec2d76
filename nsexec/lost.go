//go:build linux

package nsexec

import (
	"os"
	"sync"
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
