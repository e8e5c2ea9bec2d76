//go:build linux

package overlay

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// lookUpChoices finds out which choices match a change.
func (c *commit) lookUpChoices() {
	c.asked = make([]bool, len(c.o.Choices))
	c.chosen = make([][]store.Place, len(c.o.Choices))
	for i, choice := range c.o.Choices {
		c.chosen[i] = c.s.places(choice.Path)
		for k := range c.nodes {
			if c.means(i, store.Place{Root: c.nodes[k].root, Path: c.nodes[k].Path}) {
				c.asked[i] = true
				break
			}
		}
	}
}

// means reports whether choice i applies to the object at a place.
func (c *commit) means(i int, at store.Place) bool {
	return slices.ContainsFunc(c.chosen[i], func(p store.Place) bool {
		return p.Root == at.Root && (tree.Under(at.Path, p.Path) || isPattern(p.Path) && matches(p.Path, at.Path))
	})
}

// preference says what to do about a conflict at one of the places: the first place to which a choice applies decides.
func (c *commit) preference(places ...store.Place) Preference {
	for _, at := range places {
		for i := len(c.o.Choices) - 1; i >= 0; i-- {
			if c.means(i, at) {
				c.asked[i] = true
				return c.o.Choices[i].Prefer
			}
		}
	}
	return c.o.Prefer
}

// A Hunk is a place in a text at which the changes of both sides exclude each other.
type Hunk struct {
	Line                   int      // of the first line in the project's version, from 1
	Base, Project, Session []string // lines, without their ends
}

// Overlaps compares the present two versions of a file with a Conflict. It returns the hunks that a merge would have to
// decide. If there are none, and no error, Prefer: Merge works. With ErrNoBase, the hunks are those in which the
// versions differ, without a Base. ErrNotText: they cannot be compared.
func (s *Session) Overlaps(c Conflict) ([]Hunk, error) {
	if c.Index != "" || !c.Session.Mode.IsRegular() || !c.Project.Mode.IsRegular() || !c.Session.Exists || !c.Project.Exists {
		return nil, ErrNotText
	}
	change := Change{Root: c.Root, Path: c.Path}
	ours, err := s.content(change, Before)
	if err != nil {
		return nil, err
	}
	theirs, err := s.content(change, After)
	if err != nil {
		return nil, err
	}
	root := -1
	for i, r := range s.roots {
		if r.Path == c.Root {
			root = i
		}
	}
	base, ok, err := s.baseOf(store.Place{Root: root, Path: c.Path})
	if err != nil {
		return nil, err
	}
	var clashes []textdiff.Clash
	if ok {
		clashes, err = textdiff.Clashes(base, ours, theirs)
	} else if clashes, err = textdiff.Differences(ours, theirs); err == nil {
		err = ErrNoBase
	}
	if errors.Is(err, textdiff.ErrNotText) {
		return nil, ErrNotText
	}
	hunks := make([]Hunk, len(clashes))
	for i, k := range clashes {
		hunks[i] = Hunk{Line: k.Line, Base: texts(k.Base), Project: texts(k.Ours), Session: texts(k.Theirs)}
	}
	return hunks, err
}

// content reads one version of a file.
func (s *Session) content(c Change, side Side) ([]byte, error) {
	f, err := s.File(c, side)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNotText
		}
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, mergeMost+1))
	if err = cmp.Or(err, f.Close()); err == nil && len(data) > mergeMost {
		err = ErrNotText
	}
	return data, err
}

// texts returns lines without their ends.
func texts(lines [][]byte) []string {
	var list []string
	for _, l := range lines {
		if n := len(l); n > 0 && l[n-1] == '\n' {
			l = l[:n-1]
		}
		list = append(list, string(l))
	}
	return list
}

// mergeMost is the size, in bytes, up to which files are merged.
const mergeMost = 16 << 20
