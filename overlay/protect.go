//go:build linux

package overlay

import (
	"path"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/pathrule"
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
	return slices.ContainsFunc(f.protected, func(p pathrule.Pattern) bool {
		return p.Covers(at) || n.Low.IsDir() && (n.Kind == Deleted || !n.Up.IsDir()) && f.gone(&p, at)
	})
}

// gone reports whether a pattern matches something in a directory of the project.
func (f *runsFinder) gone(p *pathrule.Pattern, dir string) bool {
	if !p.Below(dir) {
		return false
	}
	for _, name := range f.c.Old.Names(dir) {
		at := path.Join(dir, name)
		if p.Match(at) || f.c.Old.Kind(at) == runslater.Directory && f.gone(p, at) {
			return true
		}
	}
	return false
}

// protectedBy returns the patterns of a session; they are known to be valid.
func protectedBy(m *store.Meta) (list []pathrule.Pattern) {
	for _, text := range m.Protect {
		if p, err := store.ParseProtected(string(text)); err == nil {
			list = append(list, p)
		}
	}
	return list
}
