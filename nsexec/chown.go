//go:build linux

package nsexec

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// chownCall is a call that changes an owner; uid is the argument with the user, and the group follows.
type chownCall struct{ nr, uid uint32 }

// DefaultFilterFor is DefaultFilter for a command that has the ids of uid and gid, which are those of a Cmd. A command with
// one id only, as ordinary users' commands have, gets the error of chown(2) to other ids that it gets outside: EPERM, which
// archivers and fakeroot expect, and not the EINVAL of ids that a user namespace lacks.
func DefaultFilterFor(uid, gid []IDMap) Filter {
	if uid == nil && gid == nil && os.Geteuid() == 0 && haveCaps(unix.CAP_SETUID, unix.CAP_SETGID) {
		return DefaultFilter() // all that there are
	}
	m := mapIDs(uid, gid)
	var ids [2]IDMap
	for i, list := range [...][]IDMap{m.uid, m.gid} {
		// With more ids, those that are missing are missing outside too, or were left out by choice.
		if len(list) == 1 && list[0].Count == 1 {
			ids[i] = list[0]
		}
	}
	lastFilter.Lock()
	defer lastFilter.Unlock()
	if lastFilter.filter == nil || lastFilter.ids != ids {
		lastFilter.ids, lastFilter.filter = ids, denyFilter(auditArch, x32Bit, ids[0], ids[1])
	}
	return lastFilter.filter
}

// lastFilter is the last one that DefaultFilterFor made: most programs need no other one.
var lastFilter struct {
	sync.Mutex
	ids    [2]IDMap
	filter Filter
}
