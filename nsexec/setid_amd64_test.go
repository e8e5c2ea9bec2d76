//go:build linux

package nsexec_test

import "golang.org/x/sys/unix"

var oldModeNumbers = map[string]uintptr{"open": unix.SYS_OPEN, "creat": unix.SYS_CREAT, "mknod": unix.SYS_MKNOD, "chmod": unix.SYS_CHMOD}
