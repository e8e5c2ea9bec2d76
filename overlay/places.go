//go:build linux

package overlay

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// places returns the places that a user's path may mean.
func (s *Session) places(p string) []store.Place {
	var list []store.Place
	if !filepath.IsAbs(p) {
		if p = filepath.Clean(p); filepath.IsLocal(p) {
			for i := range s.roots {
				list = append(list, store.Place{Root: i, Path: p})
			}
		}
		return list
	}
	p = filepath.Clean(p)
	for _, spelled := range []string{p, resolveParent(p)} {
		for i, r := range s.roots {
			if paths.Inside(spelled, r.Path) {
				rel := strings.TrimPrefix(strings.TrimPrefix(spelled, r.Path), "/")
				return []store.Place{{Root: i, Path: path.Clean(rel)}}
			}
		}
	}
	return nil
}

// resolveParent resolves the links above the last name, as far as the path exists: the object itself may be deleted, or
// may be a link, which is then meant itself.
func resolveParent(p string) string {
	rest := ""
	for dir := p; dir != "/"; {
		var name string
		dir, name = filepath.Dir(dir), filepath.Base(dir)
		rest = filepath.Join(name, rest)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
	}
	return p
}

func isPattern(p string) bool { return strings.ContainsAny(p, "*?[{\\") }

// matches reports whether a pattern matches a path, or a directory above it.
func matches(pattern, p string) bool {
	for {
		if ok, _ := doublestar.Match(pattern, p); ok {
			return true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return false
		}
		p = p[:i]
	}
}
