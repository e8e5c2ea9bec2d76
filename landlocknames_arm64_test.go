//go:build linux

package nsrun_test

// Calls that this architecture does not have.
const oldLink, oldUnlink = 0, 0
