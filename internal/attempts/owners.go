//go:build linux

package attempts

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// An ownerCall gives a file away, or makes the caller another user, for which root needs privileges.
type ownerCall struct {
	nr   int32
	name string
	ids  []int8 // the arguments that are ids
}

// ownerCalls are the owner calls without a path.
var ownerCalls = [...]ownerCall{
	{unix.SYS_FCHOWN, "fchown", []int8{1, 2}}, {unix.SYS_SETGROUPS, "setgroups", nil},
	{unix.SYS_SETUID, "setuid", []int8{0}}, {unix.SYS_SETGID, "setgid", []int8{0}},
	{unix.SYS_SETREUID, "setreuid", []int8{0, 1}}, {unix.SYS_SETREGID, "setregid", []int8{0, 1}},
	{unix.SYS_SETRESUID, "setresuid", []int8{0, 1, 2}}, {unix.SYS_SETRESGID, "setresgid", []int8{0, 1, 2}},
}

// owner handles a call of root's process without privileges, and reports whether it is one of ownerCalls.
func (o *Observer) owner(n *notify.Notification) bool {
	i := slices.IndexFunc(ownerCalls[:], func(c ownerCall) bool { return c.nr == n.NR })
	if i < 0 {
		return false
	}
	c, fails := &ownerCalls[i], n.NR == unix.SYS_SETGROUPS
	if n.NR == unix.SYS_FCHOWN {
		var st unix.Stat_t
		err := unix.Stat(notify.Base(n.PID, int32(n.Args[0])), &st)
		fails = err == nil && givesAway(&st, uint32(n.Args[1]), uint32(n.Args[2]))
	} else {
		for _, arg := range c.ids {
			id := uint32(n.Args[arg])
			fails = fails || id != 0 && id != keep
		}
	}
	if fails {
		o.tell(n, Attempt{Kind: Syscall, Path: c.name, Err: unix.EPERM, Privileges: true, Owner: true})
	}
	return true
}

// keep is the id that leaves a file's owner or group as it is.
const keep = ^uint32(0)

// givesAway reports whether root without privileges may not give these owners to a file.
func givesAway(st *unix.Stat_t, uid, gid uint32) bool {
	groups, _ := os.Getgroups()
	own := st.Uid == 0
	return uid != keep && !(own && uid == 0) || gid != keep && !(own && (gid == 0 || slices.Contains(groups, int(gid))))
}

// chown makes a call with the path of a file that is open an attempt if it gives the file away.
func (o *Observer) chown(n *notify.Notification, fd sys.FD, a *Attempt) {
	uid := 1
	switch {
	case n.NR == unix.SYS_FCHOWNAT:
		uid = 2
	case !slices.Contains(oldChowns, n.NR):
		return
	}
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) == nil && givesAway(&st, uint32(n.Args[uid]), uint32(n.Args[uid+1])) {
		*a = Attempt{Kind: Syscall, Path: "chown", Err: unix.EPERM, Privileges: true, Owner: true}
	}
}
