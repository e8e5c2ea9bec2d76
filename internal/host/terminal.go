//go:build linux

package host

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// IsTerminal reports whether a file is a terminal. It is false for nil.
func IsTerminal(f *os.File) bool {
	is := false
	withFd(f, func(fd int) {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		is = err == nil
	})
	return is
}

// Terminal is the path of the first terminal among files, and the file that it must be. Empty: none is a terminal, or
// another file has its name.
func Terminal(files ...*os.File) (path string, same mounts.FileID) {
	for _, f := range files {
		if !IsTerminal(f) {
			continue
		}
		var open unix.Stat_t
		withFd(f, func(fd int) {
			if path, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); path == "" || unix.Fstat(fd, &open) != nil {
				path = ""
			}
		})
		// In a sandbox the name is that of the outer host.
		for _, path := range [...]string{path, plan.Console} {
			var named unix.Stat_t
			if path != "" && unix.Stat(path, &named) == nil && named.Ino == open.Ino && named.Dev == open.Dev {
				return path, mounts.FileID{Ino: open.Ino, Major: unix.Major(open.Dev), Minor: unix.Minor(open.Dev)}
			}
		}
	}
	return "", same
}

// withFd calls a function with the descriptor of a file, without changing its mode.
func withFd(f *os.File, use func(fd int)) {
	if f == nil {
		return
	}
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { use(int(fd)) })
	}
}
