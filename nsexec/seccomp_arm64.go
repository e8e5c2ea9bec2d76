//go:build linux

package nsexec

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = false
)

var oldCalls = [...]oldCall{}
