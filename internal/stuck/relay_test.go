//go:build linux

package stuck

import (
	"os/signal"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestRelayBlocked: a signal that every thread blocks, because whoever started this program did, is taken once in each
// round. It stays pending.
func TestRelayBlocked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signal.Ignore(unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP)
	set := uint64(1) << (unix.SIGHUP - 1)
	var old unix.Sigset_t
	block := unix.Sigset_t{Val: [len(old.Val)]uint64{set}}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		t.Fatal(err)
	}
	unblock := func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }
	defer unblock()
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	taken := 0
	relay(set, func(Calls) {
		if taken++; taken > 1 {
			unblock() // else it would not end
		}
	})
	if taken != 1 {
		t.Errorf("taken %d times", taken)
	}
	var pending uint64
	if _, _, errno := unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&pending)), 8, 0); errno != 0 || pending&set == 0 {
		t.Errorf("it is lost: %v", errno)
	}
}
