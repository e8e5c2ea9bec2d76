//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// lookMost is how many names are looked up for one path. The kernel follows 40 links, and the targets of these can have
// 80,000 names together.
const lookMost = 500

// Look is where an absolute path leads, as far as anything is there, and what that is. A command may have chosen the
// path, and made links on the way. If sees is not nil, a link that it does not report is not followed, because where it
// leads is not to be told. unseen is then that link, and the result is about it.
func Look(name string, sees func(link string) bool) (real string, on plan.OnHost, unseen string) {
	real, unseen, whole := lookUp(filepath.Clean(name), sees, &on.Nearest)
	var st unix.Stat_t
	if whole && unix.Lstat(real, &st) == nil {
		on.Exists, on.Socket = true, st.Mode&unix.S_IFMT == unix.S_IFSOCK
		if st.Mode&unix.S_IFMT == unix.S_IFCHR {
			on.Device = deviceName(real)
		}
	}
	on.Root = os.Geteuid() == 0
	may := mayAs
	if on.Root {
		may = func(name string, mode uint32) bool { return mayUnprivileged(name, mode, false) }
		on.OwnerNoRead, on.OwnerNoWrite = !mayUnprivileged(on.Nearest, unix.R_OK, true), !mayUnprivileged(on.Nearest, unix.W_OK, true)
	}
	on.NoRead, on.NoWrite = !may(on.Nearest, unix.R_OK), !may(on.Nearest, unix.W_OK)
	on.Fixed = on.Root && !mayAs(on.Nearest, unix.W_OK)
	on.Closed = on.Root && !open(on.Nearest)
	return real, on, unseen
}

// lookUp walks along a clean path, in one pass. whole says that all of it is there; near is the nearest parent that is.
func lookUp(name string, sees func(link string) bool, near *string) (real, unseen string, whole bool) {
	if fd, err := sys.Openat2(unix.AT_FDCWD, name, unix.O_PATH, 0, unix.RESOLVE_NO_SYMLINKS); err == nil {
		unix.Close(fd)
		*near = name
		return name, "", true // most paths have no links
	}
	done, rest, links := "/", strings.Split(name, "/"), 0
	for n := 0; len(rest) > 0; n++ {
		part := rest[0]
		at := filepath.Join(done, part)
		if part == "" || part == "." || part == ".." {
			done, rest = at, rest[1:]
			continue
		}
		to, err := "", error(unix.ELOOP)
		if n < lookMost {
			to, err = os.Readlink(at)
		}
		switch {
		case err != nil && !errors.Is(err, unix.EINVAL): // nothing is there, or it cannot be looked at
			*near = done
			return filepath.Join(done, filepath.Join(rest...)), "", false
		case err != nil: // no link
			done, rest = at, rest[1:]
		case sees != nil && !sees(at):
			*near = done
			return at, at, true
		default:
			if links++; links > maxLinks {
				n = lookMost
				continue
			}
			if filepath.IsAbs(to) {
				done = "/"
			}
			rest = append(strings.Split(to, "/"), rest[1:]...)
		}
	}
	*near = done
	return done, "", true
}

// maxLinks is how many links the kernel follows in one path.
const maxLinks = 40

// mayAs reports whether this process may do something with a path.
func mayAs(name string, mode uint32) bool { return sys.Access(unix.AT_FDCWD, name, mode) == nil }

// mayUnprivileged reports whether root could do something with a path, without links, if it had no privileges; with
// own, except for files whose user and group it is.
func mayUnprivileged(name string, mode uint32, own bool) bool {
	for dir := name; dir != "/"; {
		if dir = filepath.Dir(dir); !permits(dir, unix.X_OK, own) {
			return false
		}
	}
	return permits(name, mode, own) && mayAs(name, mode) // which knows of read-only file systems
}

// permits reports whether the mode of a file gives user 0 some access; with own, its mode does not count if it belongs
// to user and group 0.
func permits(name string, mode uint32, own bool) bool {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return false
	}
	if own && st.Uid == 0 && st.Gid == 0 {
		return true
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
