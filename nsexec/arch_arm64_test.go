//go:build linux

package nsexec_test

const auditX32 = false
