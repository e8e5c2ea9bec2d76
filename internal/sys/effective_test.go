//go:build linux

package sys

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLower: afterwards a thread has the capabilities that it had before, without those that it had given up itself.
// Raise gives it back those that are permitted.
func TestLower(t *testing.T) {
	runtime.LockOSThread() // and the thread ends with the test
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	get := func() (data [2]unix.CapUserData) {
		t.Helper()
		if err := unix.Capget(&head, &data[0]); err != nil {
			t.Fatal(err)
		}
		return data
	}
	had := get()
	had[0].Effective &^= 1 << unix.CAP_CHOWN
	if err := unix.Capset(&head, &had[0]); err != nil {
		t.Fatal(err)
	}
	back, ok := Lower(1<<unix.CAP_KILL | 1<<unix.CAP_CHOWN | 1<<unix.CAP_SYSLOG)
	const left = 1<<unix.CAP_KILL | 1<<unix.CAP_CHOWN
	if now := get(); !ok || now[0].Effective != had[0].Effective&^left || now[1].Effective != had[1].Effective&^(1<<(unix.CAP_SYSLOG-32)) {
		t.Errorf("lowered: %v, %x", ok, now)
	}
	if ok := back(); !ok || get() != had {
		t.Errorf("restored: %v, %x instead of %x", ok, get(), had)
	}
	back, ok = Raise(left)
	if now := get(); !ok || now[0].Effective != had[0].Effective|had[0].Permitted&left || now[1] != had[1] {
		t.Errorf("raised: %v, %x", ok, now)
	}
	if ok := back(); !ok || get() != had {
		t.Errorf("given up: %v, %x instead of %x", ok, get(), had)
	}
}
