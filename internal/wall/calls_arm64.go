//go:build linux

package wall

// oldCalls are those that this architecture does not have.
var oldCalls []call
