//go:build linux

package attempts

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/nsexec"
)

// TestRefusedNames: each call that the default filter refuses, whatever its arguments are, has a name here.
func TestRefusedNames(t *testing.T) {
	deny := []unix.SockFilter(nsexec.DefaultFilter())
	names := 0
	for nr := uint32(0); nr < 600; nr++ {
		if v := verdict(deny, nr, deny[1].K, new([6]uint64)); v&seccomp.Action != seccomp.Refuse || !told(syscall.Errno(v&^seccomp.Action)) {
			continue
		}
		n := &notify.Notification{}
		n.NR = int32(nr)
		name, _ := refusedCall(n)
		if strings.HasPrefix(name, "system call ") {
			t.Errorf("call %d has no name", nr)
		}
		names++
	}
	if names < 30 {
		t.Errorf("only %d calls are refused", names)
	}
}

// TestRefusedNeeds: what anyone may do outside depends on arguments and settings of the host.
func TestRefusedNeeds(t *testing.T) {
	for _, tt := range []struct {
		nr     int32
		args   [6]uint64
		anyone bool
	}{
		{unix.SYS_MOUNT, [6]uint64{}, false}, {unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWNS}, false}, {unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, true},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET}, false}, {unix.SYS_SOCKET, [6]uint64{unix.AF_ALG}, true}, {unix.SYS_KEYCTL, [6]uint64{}, true},
		{unix.SYS_SYSLOG, [6]uint64{5}, false}, {unix.SYS_SYSLOG, [6]uint64{3}, setting("kernel/dmesg_restrict", 1) == 0},
		{unix.SYS_PERF_EVENT_OPEN, [6]uint64{}, setting("kernel/perf_event_paranoid", 0) < 3},
		{unix.SYS_USERFAULTFD, [6]uint64{1}, true}, {unix.SYS_USERFAULTFD, [6]uint64{}, setting("vm/unprivileged_userfaultfd", 1) != 0},
	} {
		n := &notify.Notification{}
		n.NR, n.Args = tt.nr, tt.args
		if name, needs := refusedCall(n); (needs == 0) != tt.anyone {
			t.Errorf("%s %v: %#x", name, tt.args, needs)
		}
	}
}
