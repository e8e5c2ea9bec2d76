//go:build linux

package nsexec_test

var oldModeNumbers map[string]uintptr
