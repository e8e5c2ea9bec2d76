//go:build linux

package tree

import (
	"path"
	"strings"
)

// SplitPath returns the directory and the last element of a relative path.
func SplitPath(p string) (dir, name string) {
	dir, name = path.Split(p)
	if dir == "" {
		return ".", name
	}
	return strings.TrimSuffix(dir, "/"), name
}

func JoinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// Under reports whether p is dir or lies below it; both relative and clean.
func Under(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

const (
	// MaxPath bounds the paths that are looked at, in bytes: a little less than
	// the kernel takes, to leave room for a temporary name.
	MaxPath = 4096 - 128

	// maxHeld bounds how many levels of directories a walk holds open; those
	// above are opened again when it comes back to them.
	maxHeld = 48
)
