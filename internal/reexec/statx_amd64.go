//go:build linux

package reexec

const sysStatx = 332

const (
	sysFstatat   = 262 // newfstatat
	sysSeccomp   = 317
	sysPrlimit64 = 302
)
