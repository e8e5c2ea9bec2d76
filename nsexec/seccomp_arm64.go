//go:build linux

package nsexec

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = false
)

var oldCalls = [...]oldCall{}

// chownCalls change owners.
var chownCalls = [...]chownCall{{unix.SYS_FCHOWN, 1}, {unix.SYS_FCHOWNAT, 2}}
