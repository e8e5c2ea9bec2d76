//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// Arch is the architecture of this program's system calls, and HasX32 says that there is another ABI beside it.
const (
	Arch   = unix.AUDIT_ARCH_X86_64
	HasX32 = true
)
