//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// choose returns the nodes that paths and patterns select, without excluded ones, and the new directories above them;
// and those that are held back.
func (s *Session) choose(all []node, o CommitOptions) (list, held []node, err error) {
	paths := o.Paths
	chosen := make([]bool, len(all))
	if len(paths) == 0 {
		for i := range chosen {
			chosen[i] = true
		}
	}
	for _, p := range paths {
		if err := s.include(all, chosen, p); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range o.Exclude {
		if p == "" {
			return nil, nil, &Error{Op: "exclude", Path: p, Err: errors.New("it is neither a path nor a pattern")}
		}
		match := s.excluder(p)
		for i, n := range all {
			chosen[i] = chosen[i] && !match(n)
		}
	}
	if !o.AllowExec || o.HoldSpecial && !o.AllowSpecial || slices.ContainsFunc(all, func(n node) bool { return n.unheld }) {
		held = s.holdBack(all, chosen, o)
	}
	// A new directory comes before everything in it.
	need := map[store.Place]bool{}
	for i, n := range slices.Backward(all) {
		if !chosen[i] && need[store.Place{Root: n.root, Path: n.Path}] && n.Up.IsDir() && n.Kind != Modified {
			chosen[i] = true
		}
		if !chosen[i] || n.TimeOnly {
			continue
		}
		for dir := path.Dir(n.Path); dir != "."; dir = path.Dir(dir) {
			if need[store.Place{Root: n.root, Path: dir}] {
				break
			}
			need[store.Place{Root: n.root, Path: dir}] = true
		}
	}
	for i, n := range all {
		if chosen[i] {
			list = append(list, n)
		}
	}
	return list, held, nil
}

// holdBack removes from the chosen nodes those that run later, except objects that a path names; those that are
// special; and new directories that contain nothing else.
func (s *Session) holdBack(all []node, chosen []bool, o CommitOptions) (held []node) {
	named := map[store.Place]bool{}
	for i, n := range all {
		if chosen[i] && n.Special != "" && (n.unheld || o.HoldSpecial && !o.AllowSpecial) {
			held = append(held, n)
			letGo(all, chosen, i)
			continue
		}
		if !chosen[i] || n.Runs == "" || o.AllowExec {
			continue
		}
		if len(named) == 0 {
			for _, p := range o.Paths {
				for _, at := range s.places(p) {
					named[at] = true
				}
			}
			named[store.Place{Root: -1}] = true // it is filled
		}
		if !named[store.Place{Root: n.root, Path: n.Path}] && (n.part == "" || !named[store.Place{Root: n.root, Path: n.part}]) {
			held = append(held, n)
			letGo(all, chosen, i)
		}
	}
	if held == nil {
		return nil
	}
	above := map[store.Place]bool{}
	for _, n := range held {
		for dir := path.Dir(n.Path); dir != "." && !above[store.Place{Root: n.root, Path: dir}]; dir = path.Dir(dir) {
			above[store.Place{Root: n.root, Path: dir}] = true
		}
	}
	for i, n := range slices.Backward(all) {
		if !chosen[i] || !above[store.Place{Root: n.root, Path: n.Path}] || n.Kind == Modified {
			continue
		}
		rest := false
		for k := i + 1; k < len(all) && all[k].root == n.root && tree.Under(all[k].Path, n.Path) && !rest; k++ {
			rest = chosen[k]
		}
		chosen[i] = rest
	}
	return held
}

// include chooses what a user's path or pattern means. A change at exactly this path wins, even if it looks like a
// pattern.
func (s *Session) include(all []node, chosen []bool, p string) error {
	found := -1 // the root that has it
	for _, at := range s.places(p) {
		hit := false
		i, _ := slices.BinarySearchFunc(all, at, func(n node, at store.Place) int {
			if n.root != at.Root {
				return n.root - at.Root
			}
			return paths.Compare(n.Path, at.Path)
		})
		for ; i < len(all) && all[i].root == at.Root && tree.Under(all[i].Path, at.Path); i++ {
			chosen[i] = true
			hit = hit || !all[i].TimeOnly
		}
		if hit && found >= 0 {
			return &Error{Op: "choose", Path: p, Err: fmt.Errorf("it is in more than one root: %s and %s",
				escape.Quote(s.roots[found].Path), escape.Quote(s.roots[at.Root].Path))}
		}
		if hit {
			found = at.Root
		}
	}
	if found >= 0 {
		return nil
	}
	if !isPattern(p) || !doublestar.ValidatePattern(p) {
		return &Error{Op: "choose", Path: p, Err: ErrNoChange}
	}
	hit := false
	for _, at := range s.places(p) {
		for i, n := range all {
			if n.root == at.Root && matches(at.Path, n.Path) {
				chosen[i] = true
				hit = hit || !n.TimeOnly
			}
		}
	}
	if !hit {
		return &Error{Op: "choose", Path: p, Err: ErrNoChange}
	}
	return nil
}

// excluder returns what a path or pattern excludes: one without a slash stands for
// objects of that name in any directory.
func (s *Session) excluder(p string) func(node) bool {
	if !strings.Contains(strings.TrimSuffix(p, "/"), "/") {
		name := strings.TrimSuffix(p, "/")
		return func(n node) bool {
			for element := range strings.SplitSeq(n.Path, "/") {
				if ok, _ := doublestar.Match(name, element); ok || element == name {
					return true
				}
			}
			return false
		}
	}
	list := s.places(p)
	return func(n node) bool {
		return slices.ContainsFunc(list, func(at store.Place) bool {
			return n.root == at.Root && (tree.Under(n.Path, at.Path) || matches(at.Path, n.Path))
		})
	}
}

// letGo removes a node from the chosen ones; a new directory with everything in it.
func letGo(all []node, chosen []bool, i int) {
	chosen[i] = false
	n := all[i]
	for k := i + 1; n.Up.IsDir() && n.Kind != Modified && k < len(all) && all[k].root == n.root && tree.Under(all[k].Path, n.Path); k++ {
		chosen[k] = false
	}
}
