//go:build linux

package nsexec

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// FilterOptions are what a default filter can depend on. The zero FilterOptions are for the ids of a Cmd without maps, and
// let nobody make namespaces.
type FilterOptions struct {
	// UIDMap and GIDMap are those of the Cmd. A command with one id only, as ordinary users' commands have, gets the error of
	// chown(2) to other ids that it gets outside: EPERM, which archivers and fakeroot expect, and not the EINVAL of ids that
	// a user namespace lacks.
	UIDMap, GIDMap []IDMap
	// UserNamespaces lets commands make user namespaces, and in them all others but those for cgroups and time, with mounts.
	// The kernel keeps what lies over what was hidden or read-only locked there. False: that is refused.
	UserNamespaces bool
	// CgroupNamespaces lets them make cgroup namespaces too, where they can mount what they may write to of their own cgroup.
	// False: that is refused.
	CgroupNamespaces bool
	// Openat2 lets them use openat2(2), which nsrun needs. Its modes are in memory, where no filter looks: set-user-id files
	// can be made with it. False: there is no such call.
	Openat2 bool
}

// shape is what a filter is made of.
type shape struct {
	arch       uint32
	x32        bool
	uid, gid   IDMap // without a Count: all are there
	namespaces bool
	cgroups    bool
	openat2    bool
}

// Filter is DefaultFilter, as the options say.
func (o FilterOptions) Filter() Filter {
	made := shape{arch: seccomp.Arch, x32: seccomp.HasX32, namespaces: o.UserNamespaces, cgroups: o.CgroupNamespaces, openat2: o.Openat2}
	if o.UIDMap != nil || o.GIDMap != nil || os.Geteuid() != 0 || !haveCaps(unix.CAP_SETUID, unix.CAP_SETGID) {
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
