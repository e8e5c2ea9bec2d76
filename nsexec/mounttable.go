//go:build linux

package nsexec

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// mountTable notices that something was mounted or unmounted in the launcher's mount namespace (proc_pid_mountinfo(5):
// poll(2) reports POLLPRI). It has two open files, because a file reports a change only once, to whoever polls it: one
// is polled when somebody asks, the other by the runtime.
type mountTable struct {
	gen  int64 // of the launcher
	wake *os.File
	ids  [2]sys.FileID // of fd and wake

	mu      sync.Mutex
	fd      sys.FD
	changed bool // for good
}

// openMountTable opens the mount table of the launcher, and begins to watch it: onChange is called once, in a goroutine
// of its own, if it changes before close.
func openMountTable(pid int, gen int64, onChange func(*mountTable)) (*mountTable, error) {
	name := "/proc/" + itoa(int64(pid)) + "/mountinfo"
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &mountTable{gen: gen, fd: sys.FD(fd)}
	wake, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.fd.Close()
		return nil, err
	}
	t.ids = [...]sys.FileID{t.fd.ID(), sys.FD(wake).ID()}
	t.wake = os.NewFile(uintptr(wake), name)
	conn, err := t.wake.SyscallConn()
	if err != nil {
		t.close()
		return nil, err
	}
	go func() {
		if conn.Read(func(uintptr) bool { return t.hasChanged() }) == nil {
			onChange(t)
		}
	}()
	return t, nil
}

// hasChanged reports whether the table has changed since it was opened, or was closed.
func (t *mountTable) hasChanged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd.Forget(t.ids[0]) {
		t.changed = true
	}
	if !t.changed {
		fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}}
		n, err := unix.Poll(fds, 0)
		t.changed = n != 0 || err != nil && err != unix.EINTR
	}
	return t.changed
}

func (t *mountTable) close() {
	dismiss(t.wake, t.ids[1])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
	if !t.fd.Forget(t.ids[0]) {
		t.fd.Close()
	}
}
