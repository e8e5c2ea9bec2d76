//go:build linux

package review

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// choice has the arguments for package overlay: absolute paths.
type choice struct {
	commit, exclude, drop []string
}

// choice turns marks into paths. The path of a directory includes everything in it. So some combinations of marks of an
// older directory and of its contents are impossible, and problem names such a combination.
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

// literal returns a pattern that matches only this path.
func literal(p string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `\`, `\\`).Replace(p)
}
