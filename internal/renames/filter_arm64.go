//go:build linux

package renames

var oldCalls []uint32

// sysLink is link(2), which there is not.
const sysLink = -1
