//go:build linux

package overlay

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// resolveConflicts looks for changes that were made in the project, and does about them what was asked for.
func (c *commit) resolveConflicts(ctx context.Context) error {
	c.lookUpChoices()
	var list []Conflict
	drop := map[int]bool{} // nodes
	for i := range c.nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := &c.nodes[i]
		found := c.conflictsOf(n)
		if len(found) == 0 {
			continue
		}
		replaced := found[0].Why == store.WhyReplaced
		what := verdict(0)
		if !n.TimeOnly && !replaced && !drop[i] {
			list, err := []Conflict(nil), error(nil)
			if what, list, err = c.reconcile(n); err != nil {
				return err
			}
			if list != nil {
				found = list
			}
		}
		prefer := c.preference(store.Place{Root: n.root, Path: n.Path})
		switch {
		case what == takeTheirs, what == takeMerged:
		case what == takeOurs:
			drop[i] = true
		case n.TimeOnly:
			drop[i] = true // the project's time is the newer one
		case replaced:
			if len(list) == 0 || list[len(list)-1] != found[0] {
				list = append(list, found[0])
			}
		case prefer == Theirs:
		case prefer == Ours:
			for k := i; k < len(c.nodes) && c.nodes[k].root == n.root && tree.Under(c.nodes[k].Path, n.Path); k++ {
				if k == i || !n.HasLow || n.Kind == TypeChanged {
					drop[k] = true
				}
			}
		case prefer == Merge && !drop[i] && what != askedOfBoth:
			why, err := c.merge(n)
			if err != nil {
				return err
			}
			if why != nil {
				for k := range found {
					found[k].Unmerged = why
				}
				list = append(list, found...)
			}
		default:
			list = append(list, found...)
		}
	}
	if at := c.arrived.failedAt; c.arrived.failed != nil { // what is in it may be no conflict
		return &Error{Op: "look at", Path: filepath.Join(c.s.roots[at.Root].Path, at.Path), Err: c.arrived.failed}
	}
	if len(list) > 0 {
		return &ConflictError{list}
	}
	if i := slices.Index(c.asked, false); i >= 0 {
		return &Error{Op: "choose", Path: c.o.Choices[i].Path, Err: ErrNoChange}
	}
	c.drop(drop)
	return nil
}

// drop leaves the nodes with these indexes out of the commit.
func (c *commit) drop(list map[int]bool) {
	if len(list) == 0 {
		return
	}
	kept := c.nodes[:0:0]
	for i, n := range c.nodes {
		switch {
		case !list[i]:
			kept = append(kept, n)
		case !n.TimeOnly:
			c.dropped = append(c.dropped, n)
		}
	}
	c.nodes = kept
}

// conflictsOf returns what the project's owner did to an object that the session changed.
func (c *commit) conflictsOf(n *node) (list []Conflict) {
	add := func(p, why string, low tree.Stat, hasLow bool) {
		k := Conflict{Root: n.Root, Path: p, Why: why, Kind: n.Kind}
		if n.HasUp && p == n.Path {
			k.Session = version(n.Up)
		}
		if hasLow {
			k.Project = version(low)
		}
		list = append(list, k)
	}
	l := &c.layers[n.root]
	switch {
	case l.Replaced:
		add(".", store.WhyReplaced, tree.Stat{}, false)
	case !n.HasLow:
		if c.removed(n) {
			add(n.Path, tx.WhyGone, tree.Stat{}, false)
		}
	case n.Path == ".":
		// The ctime of a root changes with every file made in it, and what it was like is known. What could not
		// be copied onto the upper directory cannot be compared.
		if n.Low.Perm() != l.Base.Mode && !n.TimeOnly {
			add(".", tx.WhyChanged, n.Low, true)
		}
	default:
		if c.changed(store.Place{Root: n.root, Path: n.Path}, n.Low) {
			why := tx.WhyChanged
			made := c.bothMade(n)
			if made {
				why = tx.WhyMadeToo
			}
			if add(n.Path, why, n.Low, true); made {
				list[0].Kind = Added
			}
		}
		for _, f := range n.Late {
			if c.changed(store.Place{Root: n.root, Path: f.Path}, f.Stat) {
				add(f.Path, tx.WhyBelow, f.Stat, true)
			}
		}
	}
	return list
}

// removed reports whether the project had an object where the session has one, when the
// command had ended, and has none any more.
func (c *commit) removed(n *node) bool {
	if _, ok := c.entry(store.Place{Root: n.root, Path: n.Path}); ok {
		return true
	}
	// Where nobody kept account: it was copied up from the project, not renamed in the
	// session, and something was done in the directory that it was in.
	if !n.Origin || len(c.kept) > 0 || c.deletes {
		return false
	}
	for dir := path.Dir(n.Path); ; dir = path.Dir(dir) {
		d, err := c.layers[n.root].Low.At(dir)
		if err == nil {
			st, err := d.Stat()
			d.Close()
			return err != nil || c.changed(store.Place{Root: n.root, Path: dir}, st)
		}
		if dir == "." {
			return true
		}
	}
}

// bothMade reports whether the project had nothing at a place when the command had ended that made something there.
func (c *commit) bothMade(n *node) bool {
	at := store.Place{Root: n.root, Path: n.Path}
	if _, ok := c.entry(at); ok || !c.account || n.Origin || !n.HasUp {
		return false
	}
	if _, ok := c.arrived.dirs[at]; ok {
		return false
	}
	merged, err := false, error(nil)
	if n.Up.IsDir() {
		merged, err = copiedUp(c.layers[n.root].Up, n.Path)
	}
	return err == nil && !merged
}

// merge makes one text of both versions of a file; why says what prevented that without deciding for one of them. A
// text that runs later only as a whole is for somebody to look at: neither of the versions was held back.
func (c *commit) merge(n *node) (why, err error) {
	if !n.HasUp || !n.HasLow || !n.Up.IsReg() || !n.Low.IsReg() || n.Up.Size > mergeMost || n.Low.Size > mergeMost {
		return ErrNotText, nil
	}
	ours, theirs, err := c.bothSides(n)
	if err != nil {
		return nil, err
	}
	if !textdiff.IsText(ours) || !textdiff.IsText(theirs) {
		return ErrNotText, nil
	}
	base, ok, err := c.base(store.Place{Root: n.root, Path: n.Path})
	if err != nil {
		return nil, err
	}
	if !ok {
		// Without it: what was made of the project's version, and has all that is in that, has both changes.
		if !textdiff.Contains(theirs, ours) || !c.bornAfter(n) {
			return ErrNoBase, nil
		}
		n.merged = theirs
		return nil, nil
	}
	merged, ok := textdiff.Merge(base, ours, theirs)
	if !ok {
		return ErrOverlap, nil
	}
	if n.Runs == "" && !c.o.AllowExec { // else somebody has named it
		if runs := c.runs.merge(n, merged); runs != "" {
			return errors.New("the merged text would run later (" + runs + ")"), nil
		}
	}
	n.merged = merged
	return nil, nil
}
