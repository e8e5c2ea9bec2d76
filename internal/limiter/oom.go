//go:build linux

package limiter

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/cgroups"
)

// oomWatch notices when the kernel kills a process in a cgroup of v1 for lack of memory, so that all processes of the
// command are killed, as with memory.oom.group in v2.
type oomWatch struct {
	event *os.File // an eventfd
	done  sync.WaitGroup
	fired bool // after end: it was told
}

func newOOMWatch(dir *os.File) (*oomWatch, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &oomWatch{event: os.NewFile(uintptr(fd), "eventfd")}
	control, err := unix.Openat(int(dir.Fd()), "memory.oom_control", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = cgroups.Write(int(dir.Fd()), "cgroup.event_control", fmt.Sprintf("%d %d", fd, control))
		unix.Close(control)
	}
	if err != nil {
		_ = w.event.Close()
		return nil, err
	}
	return w, nil
}

// begin calls kill when there is no memory left.
func (w *oomWatch) begin(kill func()) {
	w.done.Go(func() {
		var b [8]byte
		if _, err := w.event.Read(b[:]); err == nil {
			w.fired = true
			kill()
		}
	})
}

func (w *oomWatch) end() {
	if w == nil {
		return
	}
	_ = w.event.Close()
	w.done.Wait()
}
