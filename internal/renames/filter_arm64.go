//go:build linux

package renames

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var oldCalls []uint32

// sysLink is link(2), which there is not.
const sysLink = -1
