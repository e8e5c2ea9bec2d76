//go:build linux

package sys

import (
	"os"
	"slices"
	"strings"
	"time"
)

// NoNamespaces reports whether a limit on namespaces of some kind allows none.
func NoNamespaces() bool {
	return slices.ContainsFunc([]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}, func(kind string) bool {
		b, err := os.ReadFile("/proc/sys/user/max_" + kind + "_namespaces")
		return err == nil && strings.TrimSpace(string(b)) == "0"
	})
}

// AwaitNamespaces calls a function until it does not report that a limit on namespaces is reached, until done, or for a
// second at most. The kernel removes namespaces in the background: those of a sandbox that has just ended may be all
// that a limit allows.
func AwaitNamespaces(done <-chan struct{}, usedUp func() bool) {
	for pause := time.Millisecond; usedUp() && pause <= time.Second/2 && !NoNamespaces(); pause *= 2 {
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
	}
}
