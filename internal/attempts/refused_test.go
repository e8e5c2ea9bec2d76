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

// TestRefusedNames: each call that the default filter of an ordinary user's command refuses has a name here.
func TestRefusedNames(t *testing.T) {
	one := []nsexec.IDMap{{Inside: 1000, Outside: 1000, Count: 1}}
	deny := []unix.SockFilter(nsexec.FilterOptions{UIDMap: one, GIDMap: one}.Filter())
	values := []uint64{0, 1, 5, 1000, unix.F_SETLEASE, unix.O_CREAT, 0o4755, unix.CLONE_NEWUSER, unix.TIOCSTI, 1<<64 - 1}
	names := map[string]bool{}
	for nr := range uint32(600) {
		for i := range 6 * len(values) * len(values) {
			n := &notify.Notification{}
			n.NR = int32(nr)
			for j := range n.Args {
				n.Args[j] = values[i/6%len(values)]
			}
			n.Args[i%6] = values[i/6/len(values)]
			v := verdict(deny, nr, deny[1].K, &n.Args)
			if v&seccomp.Action != seccomp.Refuse || !told(syscall.Errno(v&^seccomp.Action)) {
				continue
			}
			name, _ := refusedCall(n)
			if names[name] = true; strings.HasPrefix(name, "number ") {
				t.Errorf("call %d has no name", nr)
				break
			}
		}
	}
	if len(names) < 50 {
		t.Errorf("only %d calls are refused: %v", len(names), names)
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
		{unix.SYS_SETUID, [6]uint64{5}, false}, {unix.SYS_SETPRIORITY, [6]uint64{0, 1}, false}, {unix.SYS_SETPRIORITY, [6]uint64{2}, true}, {unix.SYS_IOPRIO_SET, [6]uint64{1, 1}, false},
		{unix.SYS_USERFAULTFD, [6]uint64{1}, true}, {unix.SYS_USERFAULTFD, [6]uint64{}, setting("vm/unprivileged_userfaultfd", 1) != 0},
	} {
		n := &notify.Notification{}
		n.NR, n.Args = tt.nr, tt.args
		if name, needs := refusedCall(n); (needs == 0) != tt.anyone {
			t.Errorf("%s %v: %#x", name, tt.args, needs)
		}
	}
}
