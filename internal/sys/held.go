//go:build linux

package sys

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Initial is a bit beside those of capabilities: they are held in the initial user namespace, for which the kernel asks
// before it changes what all namespaces share, such as the clock.
const Initial = 1 << 63

// Held returns the effective capabilities of this thread, and Initial.
func Held() (held uint64) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if unix.Capget(&head, &has[0]) != nil {
		return 0
	}
	held = uint64(has[1].Effective)<<32 | uint64(has[0].Effective)
	if m, err := os.ReadFile("/proc/self/uid_map"); err == nil && strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295" {
		held |= Initial
	}
	return held
}
