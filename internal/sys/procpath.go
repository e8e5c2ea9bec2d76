//go:build linux

package sys

import "strconv"

// ProcPath is a name of an open file, for calls that take no descriptor.
func ProcPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
