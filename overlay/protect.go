//go:build linux

package overlay

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/runslater"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Protected is the value of Change.Runs for what only its name lets an automatic commit change.
const Protected = "protected"

// Protect adds patterns to those of Options.Protect for the session.
func (s *Session) Protect(patterns ...string) error {
	const op = "protect files"
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.usable(op, true); err != nil {
		return public(err)
	}
	m := *s.meta
	if err := m.AddProtected(patterns); err != nil || len(m.Protect) == len(s.meta.Protect) {
		return public(err)
	}
	return public(s.setMeta(&m, new(tree.Flusher)))
}

// protects reports whether a session protects what a node changes: the object itself, or something in a directory that
// the change removes.
func (f *runsFinder) protects(n *node) bool {
	at := filepath.Join(n.Root, n.Path)
	exact := func(name string) string { return name }
	covers := func(list []pathrule.Pattern, spelled func(string) string) bool {
		return slices.ContainsFunc(list, func(p pathrule.Pattern) bool {
			return p.Covers(spelled(at)) || n.Low.IsDir() && (n.Kind == Deleted || !n.Up.IsDir()) && f.gone(&p, at, spelled)
		})
	}
	return covers(f.protected.exact, exact) || covers(f.protected.folded, strings.ToLower) && f.ignoresCase(n.Root, path.Dir(at))
}

// gone reports whether a pattern matches something in a directory of the project.
func (f *runsFinder) gone(p *pathrule.Pattern, dir string, spelled func(string) string) bool {
	if !p.Below(spelled(dir)) {
		return false
	}
	for _, name := range f.c.Old.Names(dir) {
		at := path.Join(dir, name)
		if p.Match(spelled(at)) || f.c.Old.Kind(at) == runslater.Directory && f.gone(p, at, spelled) {
			return true
		}
	}
	return false
}

// ignoresCase reports whether the project's file system finds what is in a directory, or else in the nearest one above,
// under another spelling of its name.
func (f *runsFinder) ignoresCase(root, dir string) bool {
	for ; paths.Inside(dir, root); dir = path.Dir(dir) {
		names := f.c.Old.Names(dir)
		for _, name := range names {
			if other := paths.SwapCase(name); other != name {
				return !slices.Contains(names, other) && f.c.Old.Kind(path.Join(dir, other)) != runslater.Missing
			}
		}
	}
	return false
}

// A protection has the patterns of a session as they are, and in lower case, for file systems that ignore case.
type protection struct{ exact, folded []pathrule.Pattern }

// protectedBy returns the patterns of a session; they are known to be valid.
func protectedBy(m *store.Meta) (p protection) {
	for _, text := range m.Protect {
		for _, list := range [...]struct {
			to   *[]pathrule.Pattern
			text string
		}{{&p.exact, string(text)}, {&p.folded, strings.ToLower(string(text))}} {
			if pattern, err := store.ParseProtected(list.text); err == nil {
				*list.to = append(*list.to, pattern)
			}
		}
	}
	return p
}
