// Package paths compares paths by their text alone. It imports nothing of this module and asks no file system: callers
// pass absolute, clean paths, without symbolic links where that matters.
package paths

import (
	"slices"
	"strings"
)

// Inside reports whether the absolute path p is dir or lies below it.
func Inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// InAny reports whether the absolute path p is one of some directories or lies below one.
func InAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return Inside(p, dir) })
}

// Compare sorts directories before what is in them.
func Compare(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}
