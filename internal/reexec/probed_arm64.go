//go:build linux && !nsrun_image

package reexec

const (
	sysRenameat2 = 276
	sysBpf       = 280
	sysKcmp      = 272
)
