//go:build linux

package renames

import "golang.org/x/sys/unix"

// sysLink is link(2).
const sysLink = unix.SYS_LINK

var oldCalls = []uint32{unix.SYS_RENAME, unix.SYS_LINK}
