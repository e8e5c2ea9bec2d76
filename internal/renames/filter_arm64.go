//go:build linux

package renames

var oldCalls []uint32

// sysLink is link(2), which this architecture does not have.
const sysLink = -1
