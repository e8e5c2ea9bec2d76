package plan

import (
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// rules mounts them in order. What is hidden stays hidden below a directory that a rule shows, and where a pattern
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
			if rule.Access == Protect && pathrule.Verdict(b.pathRules()[:i], found.At) == Block {
				continue // what is hidden is not shown for it
			}
			if rule.Access == Write {
				b.dropWithin(found.At)
			}
			at := len(b.mounts)
			if rule.Access == Show {
				at = b.belowFolders(found.At)
			}
			b.insert(at, found.Bind)
			for _, hidden := range [...][]string{b.Secrets, b.Sockets, blockedBefore(rule, list[:i])} {
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

// blockedBefore are the paths that rules before a protecting one hide.
func blockedBefore(rule Rule, before []Rule) (list []string) {
	for _, r := range before {
		if rule.Access != Protect || r.Access != Block {
			continue
		}
		for _, found := range r.Found {
			list = append(list, found.At)
		}
	}
	return list
}

// belowFolders is the index at which a shown directory is mounted: over everything except the writable folders in it.
// It cancels earlier rules about paths in it, outside these folders.
func (b *building) belowFolders(dir string) int {
	folders := slices.Concat(b.roots(), b.Folders.Direct)
	at := b.firstIn(dir, folders)
	if at == len(b.mounts) || b.policy.Root {
		return len(b.mounts)
	}
	for i := len(b.mounts) - 1; i > at; i-- {
		target, from := b.mounts[i].Target, b.from[i]
		said := from == BuildLayer || from == PlaygroundLayer || from == RuleLayer || from == PathLayer
		if said && paths.Inside(target, dir) && !paths.InAny(target, folders) {
			b.drop(i)
		}
	}
	return at
}

// dropWithin cancels earlier rules that make paths in a directory writable, as a rule does for all of it. Where
// something is mounted, even below other mounts, nothing can be removed or replaced.
func (b *building) dropWithin(dir string) {
	for i := len(b.mounts) - 1; i >= 0; i-- {
		m, from := &b.mounts[i], b.from[i]
		if (from == RuleLayer || from == PathLayer) && m.Kind == mounts.KindBind && !m.ReadOnly && m.Target != dir && paths.Inside(m.Target, dir) {
			b.drop(i)
		}
	}
}

// coversProject refuses a rule about a directory above the project that would cover the project.
func (b *building) coversProject(access Access, dir string) error {
	if b.policy.Root && dir == "/" {
		return errRoot
	}
	if access == Show {
		return nil
	}
	for _, root := range b.roots() {
		if !b.policy.Root && root != dir && paths.Inside(root, dir) {
			return fmt.Errorf("the project %s lies in it, and the rule would cover it", escape.Quote(root))
		}
	}
	return nil
}
