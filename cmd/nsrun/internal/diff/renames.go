//go:build linux

package diff

import (
	"path"

	"github.com/nsrun/nsrun/overlay"
)

// renames are renames by their old and new paths. The contents of a renamed directory are equal, and have no entries.
type renames struct{ from, to map[renamed]overlay.Rename }

type renamed struct{ root, path string }

// IndexRenames indexes renames for Options.
func IndexRenames(list []overlay.Rename) *renames {
	r := &renames{map[renamed]overlay.Rename{}, map[renamed]overlay.Rename{}}
	for _, m := range list {
		r.from[renamed{m.Root, m.From}] = m
		r.to[renamed{m.Root, m.To}] = m
	}
	return r
}

// of returns the rename that c is one end of.
func (r *renames) of(c overlay.Change) (m overlay.Rename, ok bool) {
	if r == nil {
		return m, false
	}
	switch c.Kind {
	case overlay.Deleted:
		m, ok = r.from[renamed{c.Root, c.Path}]
	case overlay.Added:
		m, ok = r.to[renamed{c.Root, c.Path}]
	}
	return m, ok
}

// Inside reports whether c is in a renamed directory.
func (r *renames) Inside(c overlay.Change) bool {
	if r == nil || len(r.to) == 0 {
		return false
	}
	for c.Path = path.Dir(c.Path); c.Path != "."; c.Path = path.Dir(c.Path) {
		if _, ok := r.of(c); ok {
			return true
		}
	}
	return false
}
