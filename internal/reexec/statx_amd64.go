//go:build linux

package reexec

const sysStatx = 332
