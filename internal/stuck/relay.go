//go:build linux

package stuck

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// relayEvery is how late a relayed signal can be.
const relayEvery = 500 * time.Millisecond

// Relay gives signals of these kinds that no thread handles to one that does. Linux gives a signal for a process to one
// thread, and to the main thread if that does not block it. While that thread waits for a file system that does not
// answer, it does not come to the handler of the Go runtime.
//
// It takes a signal as sigwait(3) does, so it does nothing as long as there is none. Before it gives a signal to
// another thread, it calls taken with the calls in which the threads are.
func Relay(taken func(Calls), signals ...unix.Signal) {
	var set uint64 // the kernel's sigset_t
	for _, s := range signals {
		set |= 1 << (s - 1)
	}
	time.AfterFunc(relayEvery, func() { // a short-lived program pays nothing
		for range time.Tick(relayEvery) {
			relay(set, taken)
		}
	})
}

func relay(set uint64, taken func(Calls)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var now unix.Timespec
	for left := set; ; { // each signal once: this thread may block it, too, and would take it again
		s, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&left)), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno != 0 {
			return
		}
		left &^= 1 << (s - 1)
		taken(Now())
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.Signal(s))
	}
}
