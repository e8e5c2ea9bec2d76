//go:build linux

package attempts

var oldCalls []call

// oldChowns are calls like fchownat(2) that newer architectures do not have.
var oldChowns = []int32{}
