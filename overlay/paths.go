//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// splitPath returns the directory and the last element of a relative path.
func splitPath(p string) (dir, name string) {
	dir, name = path.Split(p)
	if dir == "" {
		return ".", name
	}
	return strings.TrimSuffix(dir, "/"), name
}

// joinPath joins a directory ("." for the root) and a name.
func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// under reports whether p is dir or lies below it; both relative and clean.
func under(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// comparePaths orders paths as a walk meets them: a directory, then what is in
// it, names by their bytes.
func comparePaths(a, b string) int {
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

// inside reports whether the absolute path p is dir or lies below it.
func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// bare takes the path off an error that gets one anyway.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
