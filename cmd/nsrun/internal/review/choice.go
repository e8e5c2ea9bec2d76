//go:build linux

package review

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// choice is what is to be done, in terms of package overlay.
type choice struct {
	commit, exclude, drop []string // absolute paths
}

// choice turns marks into paths. A path means everything in a directory too, so that
// some ways to mark a directory that was there before, and what is in it, cannot be had:
// then problem says which.
func (m *model) choice() (c choice, problem string) {
	path := func(i int) string { return filepath.Join(m.rows[i].Root, m.rows[i].Path) }
	for i := 0; i < len(m.rows); {
		r := &m.rows[i]
		switch m.markOf(i) {
		case markCommit:
			c.commit = append(c.commit, path(i))
			if r.group {
				i = r.end
				continue
			}
			for j := i + 1; j < r.end; {
				switch m.markOf(j) {
				case markCommit, markMixed:
					j++
				default:
					for _, in := range m.rows[j+1 : m.rows[j].end] {
						if !in.group && in.mark == markCommit {
							return c, m.rows[j].name + " can be left out only with everything in it, because " + r.name + " is committed"
						}
					}
					if !utf8.ValidString(m.rows[j].name) {
						return c, m.rows[j].name + " cannot be left out, because " + r.name + " is committed"
					}
					c.exclude = append(c.exclude, filepath.Join(m.rows[j].Root, literal(m.rows[j].Path)))
					j = m.rows[j].end
				}
			}
		case markDrop:
			c.drop = append(c.drop, path(i))
			for _, in := range m.rows[i+1 : r.end] {
				if !in.group && in.mark != markDrop {
					return c, r.name + " can be dropped only with everything in it"
				}
			}
			i = r.end
			continue
		}
		i++
	}
	return c, ""
}

// literal makes of a path a pattern that means nothing else.
func literal(p string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `\`, `\\`).Replace(p)
}
