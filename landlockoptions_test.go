//go:build linux

package nsrun_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

func init() { insides["options"] = insideOptions }

// insideOptions sets options of TCP sockets, and prints for each whether the socket has it.
func insideOptions([]string) int {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		tell := func(name string, err error) { fmt.Println(name, err == nil) }
		number := func(name string, level, option, value int) {
			err := unix.SetsockoptInt(fd, level, option, value)
			if got, err2 := unix.GetsockoptInt(fd, level, option); err == nil && (err2 != nil || got != value) {
				err = unix.EINVAL // it only seems to be set
			}
			tell(name, err)
		}
		number("allowed: reuse", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		number("allowed: nodelay", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		number("deferred", unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
		number("port", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		if family == unix.AF_INET {
			number("allowed: tos", unix.IPPROTO_IP, unix.IP_TOS, 8)
			group := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, byte(unix.AF_INET), 0, 0, 0, 239, 83, 69, 67}, make([]byte, 120)...)
			tell("group", unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.MCAST_JOIN_GROUP, string(group)))
			tell("device", unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo"))
			tell("source route", unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, "\x01\x01\x01\x00"))
		} else {
			number("allowed: only", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
			// A segment routing header: one segment, no one left.
			tell("route", unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, "\x00\x04\x04\x01\x01\x00\x00\x00"+strings.Repeat("\x20", 32)))
		}
		_ = unix.Close(fd)
	}
	return 0
}

// TestLandlockOptions: no socket option makes packets of a command without a network reach anything but its own
// servers.
func TestLandlockOptions(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	needLandlock(t)
	dir := place(t)
	r := runner(t, shown(t, nsrun.Config{Project: filepath.Join(dir, "p"), Mode: nsrun.Direct, Backend: nsrun.LandlockBackend}))
	got, control := output(t, r, insideRequest(t, "options")), natively(t, dir, "options")
	for line := range strings.Lines(got) {
		if want := strings.HasPrefix(line, "allowed: "); strings.HasSuffix(line, " true\n") != want {
			t.Errorf("%q", line)
		}
	}
	for _, name := range []string{"deferred", "port", "group", "device", "route"} {
		if !strings.Contains(control, "\n"+name+" true\n") {
			t.Errorf("the control cannot set %s:\n%s", name, control)
		}
	}
	if strings.Count(got, "\n") != strings.Count(control, "\n") {
		t.Errorf("%s\nnatively\n%s", got, control)
	}
}
