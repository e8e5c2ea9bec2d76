package plan

import (
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// rules are mounted in their order. What is hidden stays so below a directory that a rule shows, and where a pattern
// leads to it.
func (b *building) rules(list []Rule, asked bool) error {
	for i, rule := range list {
		for _, found := range rule.Found {
			switch {
			case rule.Access == Block:
				m := mounts.Block(found.At)
				g := b.ground(found.At)
				m.Optional = g < 0 || b.mounts[g].Kind != mounts.KindBind && b.mounts[g].Kind != mounts.KindOverlay // else it was there, and may have been moved
				b.insert(len(b.mounts), m)
				continue
			case found.Hidden && found.Linked:
				return &RuleError{asked, i, ErrHidden}
			case found.Hidden:
				continue // one of many that a pattern means
			}
			if err := b.coversProject(rule.Access, found.At); err != nil {
				return &RuleError{asked, i, err}
			}
			b.insert(len(b.mounts), found.Bind)
			for _, hidden := range [...][]string{b.Secrets, b.Sockets} {
				for _, path := range hidden {
					if path != found.At && paths.Inside(path, found.At) {
						b.insert(len(b.mounts), mounts.Block(path))
					}
				}
			}
		}
		b.insert(len(b.mounts), rule.Git...)
		b.noteUnguarded(rule.Unguarded)
	}
	return nil
}

// coversProject refuses to cover a project with what a rule says about a directory that it lies in.
func (b *building) coversProject(access Access, dir string) error {
	roots := b.roots()
	if access == Show {
		roots = slices.Concat(roots, b.Folders.Direct)
	}
	for _, root := range roots {
		if !b.policy.Root && root != dir && paths.Inside(root, dir) {
			return fmt.Errorf("the project %s lies in it, and would be covered by it", escape.Quote(root))
		}
	}
	return nil
}
