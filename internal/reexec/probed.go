//go:build linux && !nsrun_image

package reexec

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A seccomp filter can end a process at a system call (SIGSYS) instead of refusing the call: the filters of systemd's
// units do, without SystemCallErrorNumber=. So where there is a filter, a process that may end makes first the calls
// that probes make in this process.

// Probed are the numbers of those calls.
var Probed = [...]uintptr{
	sysOpenat2, sysCloseRange, syscall.SYS_KEYCTL, syscall.SYS_FANOTIFY_INIT, syscall.SYS_FANOTIFY_MARK,
	428, // open_tree
	429, // move_mount
	430, // fsopen
	431, // fsconfig
	432, // fsmount
	434, // pidfd_open
	435, // clone3
	438, // pidfd_getfd
	442, // mount_setattr
	444, // landlock_create_ruleset
	sysStatx, sysSeccomp, sysRenameat2, sysBpf, sysKcmp, sysCapset,
}

// AttemptProbed makes these calls, with arguments that the kernel refuses: -1 is no descriptor, no flags and no
// address. Then it sets what is at the address done.
//
//go:nosplit
//go:norace
func AttemptProbed(done uintptr) {
	const none = ^uintptr(0)
	for _, nr := range Probed {
		syscall.RawSyscall6(nr, none, none, none, none, none, none)
	}
	atomic.StoreUint32(*(**uint32)(unsafe.Pointer(&done)), 1)
}

// attempted is the address of Attempting, or 0.
var attempted uintptr

// Attempting says that another process calls AttemptProbed with this address, in memory that it shares with this one.
//
//go:nosplit
//go:norace
func Attempting(done uintptr) { attempted = done }

// Attempted reports whether a process under the filter of this one has made these calls, and was not ended.
func Attempted() bool {
	return attempted != 0 && atomic.LoadUint32(*(**uint32)(unsafe.Pointer(&attempted))) == 1
}
