//go:build linux

package nsexec

import "golang.org/x/sys/unix"

var oldCalls = [...]oldCall{
	{unix.SYS_CHMOD, 0, 1}, {unix.SYS_CREAT, 0, 1}, {unix.SYS_MKNOD, 0, 1}, {unix.SYS_OPEN, 1, 2},
}

var chownCalls = [...]idCall{
	{unix.SYS_CHOWN, 1, 1, 1}, {unix.SYS_LCHOWN, 1, 1, 1}, {unix.SYS_FCHOWN, 1, 1, 1}, {unix.SYS_FCHOWNAT, 2, 1, 1},
}
