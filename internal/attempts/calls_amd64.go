//go:build linux

package attempts

import "golang.org/x/sys/unix"

var oldCalls = []call{
	{unix.SYS_OPEN, opens, none, 0, none, 1},
	{unix.SYS_CREAT, truncates, none, 0, none, none},
	{unix.SYS_STAT, looks, none, 0, none, none},
	{unix.SYS_LSTAT, looks, none, 0, never, none},
	{unix.SYS_ACCESS, asks, none, 0, none, 1},
	{unix.SYS_MKDIR, makes, none, 0, never, none},
	{unix.SYS_MKNOD, makes, none, 0, never, none},
	{unix.SYS_SYMLINK, makes, none, 1, never, none},
	{unix.SYS_LINK, looks, none, 0, never, none},
	{unix.SYS_LINK, makes, none, 1, never, none},
	{unix.SYS_UNLINK, removes, none, 0, never, none},
	{unix.SYS_RMDIR, removes, none, 0, never, none},
	{unix.SYS_RENAME, removes, none, 0, never, none},
	{unix.SYS_RENAME, places, none, 1, never, none},
	{unix.SYS_CHMOD, changes, none, 0, none, none},
	{unix.SYS_CHOWN, changes, none, 0, none, none},
	{unix.SYS_LCHOWN, changes, none, 0, never, none},
	{unix.SYS_UTIME, changes, none, 0, none, none},
	{unix.SYS_UTIMES, changes, none, 0, none, none},
	{unix.SYS_FUTIMESAT, changes, 0, 1, none, none},
}

// oldChowns are calls like fchownat(2) that newer architectures do not have, and oldRefusals others that are refused.
var oldChowns = []int32{unix.SYS_CHOWN, unix.SYS_LCHOWN}

var oldRefusals = []refusal{
	{unix.SYS_CHMOD, "chmod", anyone}, {unix.SYS_OPEN, "open", anyone}, {unix.SYS_CREAT, "creat", anyone}, {unix.SYS_MKNOD, "mknod", anyone},
}
