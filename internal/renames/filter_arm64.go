//go:build linux

package renames

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var oldCalls []uint32
