//go:build linux

package renames

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ids are the user and the group that this thread is for files.
func ids() (user, group int) {
	user, _ = unix.SetfsuidRetUid(-1) // which is nobody's, and so changes nothing: setfsuid(2)
	group, _ = unix.SetfsgidRetGid(-1)
	return user, group
}

// become makes this thread, which is root's, another user for files, without groups; zero: it stays who it is. The real and
// effective ids stay: as the owner of the sandbox's user namespace it may look into the sandbox. back undoes it.
func become(id int) (back func() bool, ok bool) {
	if id == 0 {
		return func() bool { return true }, true
	}
	user, group := ids()
	groups, err := unix.Getgroups()
	if err != nil {
		return func() bool { return true }, false
	}
	set := func(user, group int, groups []int) bool {
		list := make([]uint32, len(groups))
		for i, g := range groups {
			list[i] = uint32(g)
		}
		// Of this thread alone: syscall.Setgroups is for all of them.
		_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(unsafe.SliceData(list))), 0)
		_ = unix.Setfsgid(group)
		_ = unix.Setfsuid(user) // last: it takes capabilities away
		u, g := ids()
		return e == 0 && u == user && g == group
	}
	return func() bool { return set(user, group, groups) }, set(id, id, nil)
}
