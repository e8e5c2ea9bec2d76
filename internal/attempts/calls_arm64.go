//go:build linux

package attempts

var oldCalls []call
