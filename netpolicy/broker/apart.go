//go:build linux

package broker

import (
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// apart runs f on a thread that ends afterwards.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if tid := unix.Gettid(); tid == unix.Getpid() || thread(tid).parent() {
			// The first thread cannot end: it would keep the copies of all descriptors, and
			// /proc/self would show them. One that has started processes, such as the sandbox, is their
			// parent, and may be one whose end they do not survive (PR_SET_PDEATHSIG). As long as it is
			// held the next one is another.
			apart(f)
			runtime.UnlockOSThread()
			return
		}
		f() // never unlocked: the thread ends
	}()
	<-done
}

// A thread is one of this process, by its number.
type thread int

// parent reports whether it has children. It reports false if the kernel cannot tell (CONFIG_PROC_CHILDREN).
func (t thread) parent() bool {
	fd, err := t.children()
	if err != nil {
		return false
	}
	f := sys.FD(fd)
	defer f.Close()
	n, err := f.Read(make([]byte, 1))
	return err == nil && n > 0
}

func (t thread) children() (int, error) {
	return unix.Open("/proc/self/task/"+strconv.Itoa(int(t))+"/children", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
