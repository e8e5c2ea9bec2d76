//go:build linux

package nsexec

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/syndtr/gocapability/capability"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

func TestCapabilityNames(t *testing.T) {
	for _, c := range capability.List() {
		if int(c) >= len(capNames) || capNames[c] != c.String() {
			t.Errorf("capability %d is called %q elsewhere", c, c)
		}
	}
	for n := range maxCaps {
		if known := AllCapabilities()&(1<<n) != 0; known != (n <= int(capability.CAP_LAST_CAP)) {
			t.Errorf("capability %d: known %v", n, known)
		}
	}
}

// TestCapabilitiesRefused: where a filter refuses to tell which capabilities there are, none is taken for missing.
func TestCapabilitiesRefused(t *testing.T) {
	all := AllCapabilities()
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EACCES} {
		got := make(chan Capabilities)
		go func() {
			runtime.LockOSThread() // and the thread ends with its filter
			defer close(got)
			var f seccomp.Filter
			f.Nr()
			f.When(seccomp.Equal, unix.SYS_PRCTL, func() {
				f.Lower(0)
				f.When(seccomp.Equal, unix.PR_CAPBSET_READ, func() { f.Refuse(errno) })
			})
			f.Allow()
			program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				t.Error(err)
				return
			}
			if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
				t.Error(err)
				return
			}
			got <- AllCapabilities()
		}()
		if set := <-got; set != all&(1<<len(capNames)-1) {
			t.Errorf("%v: %s", errno, set)
		}
	}
}
