//go:build linux

package host

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
)

// Look is where an absolute path leads, as far as anything is there, and what that is.
func Look(name string) (real string, on plan.OnHost) {
	near, rest := existing(filepath.Clean(name))
	on.Nearest, real = near, filepath.Join(near, rest)
	var st unix.Stat_t
	if rest == "" && unix.Lstat(real, &st) == nil {
		on.Exists, on.Socket = true, st.Mode&unix.S_IFMT == unix.S_IFSOCK
		if st.Mode&unix.S_IFMT == unix.S_IFCHR {
			on.Device = deviceName(real)
		}
	}
	on.Root = os.Geteuid() == 0
	may := mayAs
	if on.Root {
		may = mayUnprivileged
	}
	on.NoRead, on.NoWrite = !may(on.Nearest, unix.R_OK), !may(on.Nearest, unix.W_OK)
	on.Closed = on.Root && !open(on.Nearest)
	return real, on
}

// mayAs reports whether this process may do something with a path.
func mayAs(name string, mode uint32) bool {
	return unix.Faccessat(unix.AT_FDCWD, name, mode, unix.AT_EACCESS) == nil
}

// mayUnprivileged reports whether root could do something with a path, without links, if it had no privileges.
func mayUnprivileged(name string, mode uint32) bool {
	for dir := name; dir != "/"; {
		if dir = filepath.Dir(dir); !permits(dir, unix.X_OK) {
			return false
		}
	}
	return permits(name, mode) && mayAs(name, mode) // which knows of read-only file systems
}

// permits reports whether the mode of a file gives user 0 some access.
func permits(name string, mode uint32) bool {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return false
	}
	bits := st.Mode
	switch groups, _ := os.Getgroups(); {
	case st.Uid == 0:
		bits >>= 6
	case int(st.Gid) == os.Getegid() || slices.Contains(groups, int(st.Gid)):
		bits >>= 3
	}
	return bits&mode == mode
}

// open reports whether everyone can read a path without links.
func open(name string) bool {
	for mode := uint32(unix.R_OK); ; mode = unix.X_OK {
		var st unix.Stat_t
		if unix.Lstat(name, &st) != nil || st.Mode&mode != mode {
			return false
		}
		if name == "/" {
			return true
		}
		name = filepath.Dir(name)
	}
}
