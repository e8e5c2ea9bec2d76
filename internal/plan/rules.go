package plan

import (
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
				m.Optional = false // it was there, and may have been moved
				b.insert(len(b.mounts), m)
				continue
			case found.Hidden && found.Linked:
				return &RuleError{asked, i, ErrHidden}
			case found.Hidden:
				continue // one of many that a pattern means
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
