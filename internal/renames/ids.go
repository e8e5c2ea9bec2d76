//go:build linux

package renames

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ids returns the user and the group that this thread has for files.
func ids() (user, group int) {
	user, _ = unix.SetfsuidRetUid(-1) // an invalid id changes nothing: setfsuid(2)
	group, _ = unix.SetfsgidRetGid(-1)
	return user, group
}

// become gives this thread of root the user and group id for files, and no other groups. Zero: nothing changes. The
// real and effective ids stay, because as the owner of the sandbox's user namespace the thread may look into the
// sandbox. back undoes it.
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
		// For this thread only: syscall.Setgroups changes all threads.
		_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(unsafe.SliceData(list))), 0)
		_ = unix.Setfsgid(group)
		_ = unix.Setfsuid(user) // last: it takes capabilities away
		u, g := ids()
		return e == 0 && u == user && g == group
	}
	return func() bool { return set(user, group, groups) }, set(id, id, nil)
}
