//go:build linux

package wall

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFlagsOfLongInfo: the flags of a descriptor are read without all that the kernel says of it, which is as long as
// the command makes it.
func TestFlagsOfLongInfo(t *testing.T) {
	const files = 400
	open := func(fd int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	poll := open(unix.EpollCreate1(0))
	event := open(unix.Eventfd(0, unix.EFD_CLOEXEC))
	for range files {
		fd := open(unix.FcntlInt(uintptr(event), unix.F_DUPFD_CLOEXEC, 0))
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
			t.Fatal(err)
		}
	}
	if got, cloexec := flagsOf(uint32(os.Getpid()), poll), flagsOf(uint32(os.Getpid()), event); got != unix.O_RDWR || cloexec != unix.O_RDWR|unix.O_CLOEXEC {
		t.Errorf("flags %#o and %#o", got, cloexec)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	flagsOf(uint32(os.Getpid()), poll)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<10 {
		t.Errorf("%d bytes were allocated", took)
	}
}
