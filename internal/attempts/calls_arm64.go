//go:build linux

package attempts

var oldCalls []call

// oldChowns are calls like fchownat(2) that newer architectures do not have, and oldRefusals others that are refused.
var oldChowns, oldRefusals = []int32{}, []refusal{}
