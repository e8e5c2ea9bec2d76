//go:build linux

package nsexec

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// FilterOptions are options of the default filter. The zero FilterOptions are for a Cmd without id maps, and allow no
// new namespaces.
type FilterOptions struct {
	// UIDMap and GIDMap are those of the Cmd. If a command has only one id, as those of ordinary users have,
	// chown(2) to other ids, setuid(2) and their like fail with EPERM as they do outside, which archivers and fakeroot
	// expect, and not with EINVAL, the error for ids that a user namespace lacks. With UserNamespaces the error is
	// EINVAL: in a user namespace of its own, a command has the ids that it chose, and no filter can see where it is.
	UIDMap, GIDMap []IDMap
	// UserNamespaces lets commands make user namespaces, and in these all other namespaces except those for cgroups
	// and time, with mounts. The kernel locks the mounts there that hide something or make it read-only
	// (mount_namespaces(7)). False: making them is refused.
	UserNamespaces bool
	// CgroupNamespaces also lets commands make cgroup namespaces, in which they can mount the part of their own
	// cgroup that they may write to. False: making them is refused.
	CgroupNamespaces bool
	// Openat2 lets commands use openat2(2), which an nsrun in the sandbox needs. The mode is in memory, which no
	// filter can read, so commands can make set-user-id files with it. False: the call fails with ENOSYS.
	Openat2 bool
	// NoSetGroupID refuses to set a set-group-id bit, with EPERM. It is for commands that can give their files to
	// any group (CAP_SETGID, in a user namespace whose files have these groups outside): whoever executes such a
	// file has that group. False: the bit can be set. The kernel then allows it for groups of the command only.
	NoSetGroupID bool
	// ChangeRoot lets commands use chroot(2), for which the kernel asks for CAP_SYS_CHROOT. What it cannot leave is the
	// root of its mount namespace. False: the call fails with EPERM, unless UserNamespaces is set.
	ChangeRoot bool
}

// shape is what a filter is made of.
type shape struct {
	arch       uint32
	x32        bool
	uid, gid   IDMap // without a Count: all are there
	namespaces bool
	cgroups    bool
	openat2    bool
	noSetGID   bool
	changeRoot bool
}

// Filter returns DefaultFilter with these options.
func (o FilterOptions) Filter() Filter {
	made := shape{
		arch: seccomp.Arch, x32: seccomp.HasX32, namespaces: o.UserNamespaces, cgroups: o.CgroupNamespaces, openat2: o.Openat2,
		noSetGID: o.NoSetGroupID, changeRoot: o.ChangeRoot,
	}
	outside := os.Geteuid() == 0 && haveCaps(unix.CAP_SETUID, unix.CAP_SETGID) && o.UIDMap == nil && o.GIDMap == nil
	if !outside && !o.UserNamespaces {
		m := mapIDs(o.UIDMap, o.GIDMap)
		for i, list := range [...][]IDMap{m.uid, m.gid} {
			// With more ids, those that are missing are missing outside too, or were left out by choice.
			if len(list) == 1 && list[0].Count == 1 {
				*[...]*IDMap{&made.uid, &made.gid}[i] = list[0]
			}
		}
	}
	lastFilter.Lock()
	defer lastFilter.Unlock()
	if lastFilter.filter == nil || lastFilter.shape != made {
		lastFilter.shape, lastFilter.filter = made, denyFilter(made)
	}
	return lastFilter.filter
}

// lastFilter is the last one that was made: most programs need no other one.
var lastFilter struct {
	sync.Mutex
	shape
	filter Filter
}
