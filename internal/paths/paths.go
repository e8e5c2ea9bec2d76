// Package paths compares paths by their text alone. It imports nothing of this module and asks no file system: callers
// pass clean paths, absolute ones unless it says otherwise, and without symbolic links where that matters.
package paths

import (
	"slices"
	"strings"
	"unicode"
)

// Inside reports whether the absolute path p is dir or lies below it.
func Inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// InAny reports whether the absolute path p is one of some directories or lies below one.
func InAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return Inside(p, dir) })
}

// Compare orders paths as a walk meets them: a directory, then what is in it, names by their bytes. They are all
// absolute, or all relative and clean.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	if a == "." {
		return -1
	}
	if b == "." {
		return 1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' {
			return -1
		}
		if b[i] == '/' {
			return 1
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}

// SwapCase returns a name with upper case for lower case, and the other way around. A file
// system that ignores case takes both for one name.
func SwapCase(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
}
