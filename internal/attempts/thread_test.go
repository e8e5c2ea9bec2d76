//go:build linux

package attempts

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestThreadStays: when an Observer has served, its thread is still there. The thread can be the one that made the
// sandbox, and the kernel kills the sandbox when that thread ends: then the exit status would be lost.
func TestThreadStays(t *testing.T) {
	for name, root := range map[string]func(uint32) bool{"the caller's rights": nil, "root's rights": func(uint32) bool { return true }} {
		t.Run(name, func(t *testing.T) {
			stop, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(stop)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			o := &Observer{
				Deny: []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}}, Root: root,
				stop: sys.FD(stop), root: sys.None, done: make(chan struct{}),
			}
			o.quick = newQuick(o)
			var served int
			// The control has another thread, which it holds meanwhile, and does not unlock.
			control := onThread(func() {
				served = onThread(func() { o.serve(r) })
				runtime.LockOSThread()
			})
			testenv.Eventually(t, "the end of a locked thread", func() bool { return !isThread(control) })
			if !isThread(served) {
				t.Error("the thread has ended")
			}
		})
	}
}

func isThread(tid int) bool {
	_, err := os.Stat("/proc/self/task/" + strconv.Itoa(tid))
	return err == nil
}

// onThread runs f on a thread that can end, as the first one cannot, and returns its number.
func onThread(f func()) (tid int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if tid = unix.Gettid(); tid == unix.Getpid() {
			tid = onThread(f) // this thread is held, so it gets another one
			return
		}
		f()
	}()
	<-done
	return tid
}
