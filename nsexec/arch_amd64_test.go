//go:build linux

package nsexec_test

// auditX32: this architecture has a second set of system calls.
const auditX32 = true
