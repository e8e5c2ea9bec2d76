//go:build linux

package nsexec_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestHungMount: a file system that does not answer holds up neither a context's
// end nor other commands.
func TestHungMount(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, hungMount)
}

func hungMount(t *testing.T, classic bool) {
	dir := testenv.Dir(t)
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testenv.Skip(t, "fuse", "/dev/fuse: "+err.Error())
	}
	if err := unix.Mount("dead", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)); err != nil {
		_ = unix.Close(dev)
		testenv.Skip(t, "fuse", err.Error())
	}
	defer func() {
		_ = unix.Close(dev) // a process that still waits gets ENOTCONN
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}()
	ctx, cancel := context.WithCancel(context.Background())
	c := nsexec.CommandContext(ctx, "true")
	c.Mounts = base(mounts.ROBind(dir+"/x", "/mnt"))
	sandbox.Of(c).ClassicMounts = classic
	started := make(chan error)
	go func() { started <- c.Start() }()
	// Until it hangs: the first request of the file system is there to be read.
	fds := []unix.PollFd{{Fd: int32(dev), Events: unix.POLLIN}}
	buf := make([]byte, 1<<17)
	for lookups := 0; lookups < 1; {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if n, err := unix.Read(dev, buf); err == nil && n > 4 {
			lookups++
		}
	}
	check(t, shell("echo fine"), "fine")
	cancel()
	select {
	case err := <-started:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(testenv.Patience):
		t.Error("Start waits for the mount")
	}
	if c.Process != nil {
		t.Error("there is a process")
	}
}
