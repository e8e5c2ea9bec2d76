//go:build linux

package wall

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/seccomp"
)

// A deed says what a call changes.
type deed uint8

const (
	mode deed = iota
	owner
	times     // two struct timespec
	oldTimes  // two struct timeval
	utimbuf   // struct utimbuf
	setsAttr  // an extended attribute
	dropsAttr // removes an extended attribute
)

// A call is a system call that the Deputy receives. Arguments are numbered from 0; noArg means that there is none.
type call struct {
	nr    int
	deed  deed
	dir   int // the descriptor that the path is relative to, or, without a path, of the file that is changed
	path  int
	arg   int  // the first argument with the new value
	flags int  // AT_…
	link  bool // it changes a symbolic link itself
}

const noArg = -1

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

// Nothing is a filter that allows every call.
func Nothing() []unix.SockFilter { return []unix.SockFilter{{Code: seccomp.Return, K: seccomp.Allow}} }

// find returns the call with a number. Nil: it is not one of these.
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

// Notified is the filter that reports calls to the Deputy: these, those of names.go, socketpair(2) for datagrams, and,
// with loopback, those of sockets.go.
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
