//go:build linux

package renames

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// asOwner calls f on a thread of unprivileged. If the caller has root's capabilities over files of all owners, and the
// names are in an overlay of the sandbox, f has them too. An overlay carries out each call with the rights of whoever
// mounted it, after it has checked those of the caller. That was the sandbox, whose root has the same capabilities over
// the same ids. So f can do no more than the caller.
func (m *move) asOwner(f func()) {
	if m.by.owns(m.from.dir) && m.overlay() {
		raised(f)
	} else {
		f()
	}
}

// raised calls f with the capabilities over files of all owners. Each thread of unprivileged that uses them answers one
// call only, and gives up the rest of its rights afterwards.
func raised(f func()) {
	if back, ok := sys.Raise(ownersCapabilities); ok {
		defer back()
	}
	f()
}

// overlays are the overlays of a sandbox, by the mount's id, and where they are. The sandbox keeps them to its end.
type overlays map[uint64]string

// owns reports whether a caller has capabilities over files of all owners, and a directory is in an overlay of the
// sandbox.
func (r *rights) owns(dir sys.FD) bool {
	if r == nil || !r.owners {
		return false
	}
	var st unix.Statx_t
	if sys.Statx(int(dir), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return false
	}
	_, ok := r.overlays[st.Mnt_id]
	return ok
}

// around returns the overlay that a path begins with. Empty: there is none.
func (o overlays) around(path string) (at string) {
	for _, p := range o {
		if len(p) > len(at) && strings.HasPrefix(path, p+"/") {
			at = p
		}
	}
	return at
}

// overlaysOf reads the mounts of the sandbox of a process. The process itself may have changed its root, and its table
// has only the mounts below that.
func overlaysOf(pid uint32) overlays {
	table, err := os.ReadFile(notify.Proc(first(pid), "mountinfo"))
	if err != nil {
		return nil
	}
	list, _ := mounts.ParseMountinfo(table)
	found := make(overlays)
	for _, m := range list {
		if m.FSType == "overlay" {
			found[uint64(m.ID)] = m.Target
		}
	}
	return found
}

// first returns the sandbox's PID 1, which has the sandbox's root, or the process itself if it cannot be found.
func first(pid uint32) uint32 {
	const mostAncestors = 1 << 10
	at := pid
	for range mostAncestors {
		status, err := os.ReadFile(notify.Proc(at, "status"))
		if err != nil {
			return pid
		}
		parent, inside := notify.Last(status, "PPid:"), notify.Last(status, "NSpid:")
		switch {
		case inside == 1 && sameMounts(pid, at): // else a number was used again
			return at
		case inside == 1 || parent == 0:
			return pid
		}
		at = uint32(parent)
	}
	return pid
}

// sameMounts reports whether two processes have the same mount namespace.
func sameMounts(one, other uint32) bool {
	var st [2]unix.Stat_t
	for i, pid := range [...]uint32{one, other} {
		if unix.Stat(notify.Proc(pid, "ns/mnt"), &st[i]) != nil {
			return false
		}
	}
	return st[0].Ino == st[1].Ino && st[0].Dev == st[1].Dev
}

// openDir opens a directory, as open does. If the caller may enter directories of all owners, it enters those of the
// sandbox's overlays, and does not leave the overlay then: elsewhere the caller has no such right.
func (s *caller) openDir(at sys.FD, name string, how uint64) (sys.FD, error) {
	dir, err := open(at, name, how)
	if err != unix.EACCES || s.by == nil {
		return dir, err
	}
	if how&unix.RESOLVE_IN_ROOT != 0 {
		inside := at // a root of the caller's own can lie in an overlay
		if top := s.by.overlays.around(name); top != "" {
			if inside, err = open(at, top, how); err != nil {
				return inside, err
			}
			defer inside.Close()
			name = name[len(top):]
		}
		at, name = inside, strings.TrimLeft(name, "/")
	}
	if name == "" || !s.by.owns(at) {
		return sys.None, unix.EACCES
	}
	raised(func() { dir, err = open(at, name, beneath|unix.RESOLVE_NO_XDEV) })
	return dir, err
}
