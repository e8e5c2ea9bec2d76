//go:build linux

package broker

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// x32: system calls of the x32 ABI have the same architecture and a bit in their
	// number.
	x32 = true
)
