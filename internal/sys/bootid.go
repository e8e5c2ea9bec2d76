//go:build linux

package sys

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// BootID is the kernel's random id of this boot (proc_sys_kernel(5), random/boot_id). Empty: it cannot be read.
var BootID = sync.OnceValue(func() string {
	fd, err := unix.Open("/proc/sys/kernel/random/boot_id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var buf [64]byte
	n, err := unix.Read(fd, buf[:])
	id := strings.TrimSpace(string(buf[:max(n, 0)]))
	if err != nil || len(id) != 36 || strings.Trim(id, "0123456789abcdef-") != "" {
		return ""
	}
	return id
})
