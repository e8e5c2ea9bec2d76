//go:build linux

package reexec

const sysStatx = 291

const (
	sysFstatat   = 79
	sysSeccomp   = 277
	sysPrlimit64 = 261
)
