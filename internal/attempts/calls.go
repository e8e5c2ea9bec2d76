//go:build linux

package attempts

import "golang.org/x/sys/unix"

// A deed says what a call does with a path.
type deed uint8

const (
	looks     deed = iota // looks at a file
	enters                // enters a directory
	asks                  // asks whether it has the access that mode says
	watches               // watches for changes
	opens                 // opens a file, as flags say
	makes                 // makes a new file
	removes               // removes a name
	places                // puts something under a name, whatever has it now
	changes               // changes a file
	truncates             // truncates a file, or makes it: creat(2)
	executes
	connects // connects to a unix socket
)

// none stands for an argument that a call does not have. The others stand for flags that are not among the arguments.
const (
	none   = -1
	follow = -2 // AT_SYMLINK_FOLLOW is needed to follow a link
	never  = -3 // links are not followed
	watch  = -4 // IN_DONT_FOLLOW says that links are not followed
)

// A call is one that takes a path.
type call struct {
	nr        int
	deed      deed
	dir, path int8 // the numbers of these arguments; dir none: the working directory
	flags     int8 // the argument with flags such as AT_SYMLINK_NOFOLLOW; or none, follow, never or watch
	mode      int8 // the argument with the access that is asked for, or with the flags of an open
}

// newCalls are the calls that all architectures have; oldCalls has others. A call with two paths has two entries, one
// after the other.
var newCalls = []call{
	{unix.SYS_OPENAT, opens, 0, 1, none, 2},
	{unix.SYS_NEWFSTATAT, looks, 0, 1, 3, none},
	{unix.SYS_STATX, looks, 0, 1, 2, none},
	{unix.SYS_FACCESSAT, asks, 0, 1, none, 2},
	{unix.SYS_FACCESSAT2, asks, 0, 1, 3, 2},
	{unix.SYS_CHDIR, enters, none, 0, none, none},
	{unix.SYS_EXECVE, executes, none, 0, none, none},
	{unix.SYS_EXECVEAT, executes, 0, 1, 4, none},
	{unix.SYS_MKDIRAT, makes, 0, 1, never, none},
	{unix.SYS_MKNODAT, makes, 0, 1, never, none},
	{unix.SYS_SYMLINKAT, makes, 1, 2, never, none},
	{unix.SYS_LINKAT, looks, 0, 1, follow, none},
	{unix.SYS_LINKAT, makes, 2, 3, never, none},
	{unix.SYS_UNLINKAT, removes, 0, 1, never, none},
	{unix.SYS_RENAMEAT, removes, 0, 1, never, none},
	{unix.SYS_RENAMEAT, places, 2, 3, never, none},
	{unix.SYS_RENAMEAT2, removes, 0, 1, never, none},
	{unix.SYS_RENAMEAT2, places, 2, 3, never, none},
	{unix.SYS_FCHMODAT, changes, 0, 1, none, none},
	{unix.SYS_FCHMODAT2, changes, 0, 1, 3, none},
	{unix.SYS_FCHOWNAT, changes, 0, 1, 4, none},
	{unix.SYS_UTIMENSAT, changes, 0, 1, 3, none},
	{unix.SYS_TRUNCATE, changes, none, 0, none, none},
	{unix.SYS_SETXATTR, changes, none, 0, none, none},
	{unix.SYS_LSETXATTR, changes, none, 0, never, none},
	{unix.SYS_REMOVEXATTR, changes, none, 0, none, none},
	{unix.SYS_LREMOVEXATTR, changes, none, 0, never, none},
	{unix.SYS_STATFS, looks, none, 0, none, none},
	{unix.SYS_INOTIFY_ADD_WATCH, watches, none, 1, watch, none},
	{unix.SYS_CONNECT, connects, none, 1, none, none},
	{unix.SYS_BIND, makes, none, 1, never, none},
}

// sendsTo is sendto(2) to a unix socket: a filter reports it only with an address, so it is not among newCalls.
var sendsTo = call{unix.SYS_SENDTO, connects, none, 4, none, none}

// calls returns the entries of a call. Nil: it takes no path.
func calls(nr int) []call {
	for _, list := range [...][]call{newCalls, oldCalls} {
		for i := range list {
			switch {
			case list[i].nr != nr:
			case i+1 < len(list) && list[i+1].nr == nr:
				return list[i : i+2]
			default:
				return list[i : i+1]
			}
		}
	}
	return nil
}
