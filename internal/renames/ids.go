//go:build linux

package renames

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
)

// ids returns the user and the group that this thread has for files.
func ids() (user, group int) {
	user, _ = unix.SetfsuidRetUid(-1) // an invalid id changes nothing: setfsuid(2)
	group, _ = unix.SetfsgidRetGid(-1)
	return user, group
}

// rights are what a thread may do with files.
type rights struct {
	user, group int // its ids for files, as this process sees them
	groups      []int
	owners      bool     // it has root's capabilities over files of all owners,
	overlays    overlays // in these overlays
}

// ownersCapabilities are the capabilities over files of all owners.
const ownersCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// rightsOf returns the rights of a thread.
func rightsOf(pid uint32) (by rights, ok bool) {
	status, err := os.ReadFile(notify.Proc(pid, "status"))
	if err != nil {
		return by, false
	}
	found := 0
	for line := range bytes.Lines(status) {
		words := bytes.Fields(line)
		switch {
		case len(words) == 5 && string(words[0]) == "Uid:":
			by.user, err = strconv.Atoi(string(words[4]))
		case len(words) == 5 && string(words[0]) == "Gid:":
			by.group, err = strconv.Atoi(string(words[4]))
		case len(words) > 0 && string(words[0]) == "Groups:":
			for _, w := range words[1:] {
				var g int
				if g, err = strconv.Atoi(string(w)); err != nil {
					return by, false
				}
				by.groups = append(by.groups, g)
			}
		case len(words) == 2 && string(words[0]) == "CapEff:":
			var has uint64
			has, err = strconv.ParseUint(string(words[1]), 16, 64)
			by.owners = has&ownersCapabilities == ownersCapabilities
		default:
			continue
		}
		if found++; err != nil {
			return by, false
		}
	}
	return by, found == 4
}

// become gives this thread of root the ids of by for files. The real and effective ids stay, because as the owner of
// the sandbox's user namespace the thread may look into the sandbox. back undoes it.
func become(by *rights) (back func() bool, ok bool) {
	user, group := ids()
	groups, err := unix.Getgroups()
	if err != nil {
		return func() bool { return true }, false
	}
	if user == by.user && group == by.group && slices.Equal(groups, by.groups) {
		return func() bool { return true }, true
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
	return func() bool { return set(user, group, groups) }, set(by.user, by.group, by.groups)
}
