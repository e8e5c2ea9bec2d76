//go:build linux

package wall

import "golang.org/x/sys/unix"

// oldCalls are calls that newer architectures do not have.
var oldCalls = []call{
	{nr: unix.SYS_CHMOD, deed: mode, dir: noArg, path: 0, arg: 1, flags: noArg},
	{nr: unix.SYS_CHOWN, deed: owner, dir: noArg, path: 0, arg: 1, flags: noArg},
	{nr: unix.SYS_LCHOWN, deed: owner, dir: noArg, path: 0, arg: 1, flags: noArg, link: true},
	{nr: unix.SYS_UTIME, deed: utimbuf, dir: noArg, path: 0, arg: 1, flags: noArg},
	{nr: unix.SYS_UTIMES, deed: oldTimes, dir: noArg, path: 0, arg: 1, flags: noArg},
	{nr: unix.SYS_FUTIMESAT, deed: oldTimes, dir: 0, path: 1, arg: 2, flags: noArg},
}

// openers and namers are the calls by which C libraries open and name files.
var (
	openers = [...]opener{{nr: unix.SYS_OPENAT, path: 1, flags: 2}, {nr: unix.SYS_OPEN, path: 0, flags: 1}}
	namers  = [...]namer{{nr: unix.SYS_LINK, old: 0, new: 1}, {nr: unix.SYS_UNLINK, old: 0, new: noArg}}
)
