//go:build linux

package wall

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// A deed is what a call changes.
type deed uint8

const (
	mode deed = iota
	owner
	times     // two struct timespec
	oldTimes  // two struct timeval
	utimbuf   // struct utimbuf
	setsAttr  // an extended attribute
	dropsAttr // that is removed
)

// A call is one that is told of. Arguments are numbered from 0; none is noArg.
type call struct {
	nr    int
	deed  deed
	dir   int // a descriptor, which the path is relative to; without a path it is what is changed
	path  int
	arg   int // the first one of what is changed to
	flags int // AT_…
	link  bool
}

const noArg = -1

// newCalls are those that all architectures have.
var newCalls = []call{
	{nr: unix.SYS_FCHMOD, deed: mode, dir: 0, path: noArg, arg: 1, flags: noArg},
	{nr: unix.SYS_FCHMODAT, deed: mode, dir: 0, path: 1, arg: 2, flags: noArg},
	{nr: unix.SYS_FCHMODAT2, deed: mode, dir: 0, path: 1, arg: 2, flags: 3},
	{nr: unix.SYS_FCHOWN, deed: owner, dir: 0, path: noArg, arg: 1, flags: noArg},
	{nr: unix.SYS_FCHOWNAT, deed: owner, dir: 0, path: 1, arg: 2, flags: 4},
	{nr: unix.SYS_UTIMENSAT, deed: times, dir: 0, path: 1, arg: 2, flags: 3},
	{nr: unix.SYS_SETXATTR, deed: setsAttr, dir: noArg, path: 0, arg: 1, flags: noArg},
	{nr: unix.SYS_LSETXATTR, deed: setsAttr, dir: noArg, path: 0, arg: 1, flags: noArg, link: true},
	{nr: unix.SYS_FSETXATTR, deed: setsAttr, dir: 0, path: noArg, arg: 1, flags: noArg},
	{nr: unix.SYS_REMOVEXATTR, deed: dropsAttr, dir: noArg, path: 0, arg: 1, flags: noArg},
	{nr: unix.SYS_LREMOVEXATTR, deed: dropsAttr, dir: noArg, path: 0, arg: 1, flags: noArg, link: true},
	{nr: unix.SYS_FREMOVEXATTR, deed: dropsAttr, dir: 0, path: noArg, arg: 1, flags: noArg},
}

// Nothing is a filter that lets everything pass.
func Nothing() []unix.SockFilter { return []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}} }

// find is the call with a number.
func find(nr int32) *call {
	for _, list := range [...][]call{newCalls, oldCalls} {
		for i := range list {
			if list[i].nr == int(nr) {
				return &list[i]
			}
		}
	}
	return nil
}

// Notified is the filter that tells of these calls, of those of names.go and of pairs of sockets for messages, and with loopback
// of those of sockets.
func Notified(loopback bool) []unix.SockFilter {
	var f builder
	f.Nr()
	f.notifyNames()
	f.call(unix.SYS_SOCKETPAIR, func() {
		f.Lower(1)
		f.Add(seccomp.And, 0, 0, seccomp.SockTypeMask)
		f.Add(seccomp.Equal, 0, 1, unix.SOCK_DGRAM)
		f.Notify()
	})
	for _, list := range [...][]call{newCalls, oldCalls} {
		for _, c := range list {
			f.Add(seccomp.Equal, 0, 1, uint32(c.nr))
			f.Notify()
		}
	}
	for _, nr := range socketCalls {
		if loopback {
			f.Add(seccomp.Equal, 0, 1, nr)
			f.Notify()
		}
	}
	f.Allow()
	return f.Filter
}
