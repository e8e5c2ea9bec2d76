//go:build linux

package nsexec

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = false
)

var oldCalls = [...]oldCall{}

var chownCalls = [...]chownCall{{unix.SYS_FCHOWN, 1}, {unix.SYS_FCHOWNAT, 2}}
