//go:build linux

package wall

import "golang.org/x/sys/unix"

// oldCalls are calls that this architecture does not have.
var oldCalls []call

// openers and namers are the calls by which C libraries open and name files.
var (
	openers = [...]opener{{nr: unix.SYS_OPENAT, path: 1, flags: 2}}
	namers  = [...]namer{
		{nr: unix.SYS_LINKAT, here: []uint32{0, 2}, old: 1, new: 3},
		{nr: unix.SYS_UNLINKAT, here: []uint32{0}, old: 1, new: noArg},
	}
)
