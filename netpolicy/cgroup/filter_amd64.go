//go:build linux

package cgroup

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // of the numbers of x32's system calls
)
