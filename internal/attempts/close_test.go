//go:build linux

package attempts

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestCloseWhileLooking: Close does not wait for a file system that does not answer, and what the Observer still uses
// stays open until that does.
func TestCloseWhileLooking(t *testing.T) {
	defer func(before time.Duration) { notify.Patience = before }(notify.Patience)
	notify.Patience = 10 * time.Millisecond
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	is := func(fd int) bool {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err == nil
	}
	o := &Observer{stop: sys.FD(stop), root: sys.FD(root), done: make(chan struct{})}
	o.Close()
	if !is(stop) || !is(root) {
		t.Error("Close has closed what is in use")
	}
	close(o.done)
	testenv.Eventually(t, "the end of the Observer", func() bool { return !is(stop) && !is(root) })
}
