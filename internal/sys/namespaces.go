//go:build linux

package sys

import (
	"os"
	"slices"
	"strings"
)

// NoNamespaces reports whether a limit on namespaces of some kind allows none.
func NoNamespaces() bool {
	return slices.ContainsFunc([]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}, func(kind string) bool {
		b, err := os.ReadFile("/proc/sys/user/max_" + kind + "_namespaces")
		return err == nil && strings.TrimSpace(string(b)) == "0"
	})
}
