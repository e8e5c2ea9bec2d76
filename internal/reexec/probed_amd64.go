//go:build linux && !nsrun_image

package reexec

const (
	sysRenameat2 = 316
	sysBpf       = 321
	sysKcmp      = 312
)
