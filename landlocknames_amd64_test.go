//go:build linux

package nsrun_test

import "golang.org/x/sys/unix"

// Calls that newer architectures do not have.
const oldLink, oldUnlink = unix.SYS_LINK, unix.SYS_UNLINK
