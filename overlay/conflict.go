//go:build linux

package overlay

import (
	"context"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/textdiff"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// resolveConflicts looks for changes that were made in the project, and does about
// them what was asked for.
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
	if len(list) > 0 {
		return &ConflictError{list}
	}
	if i := slices.Index(c.asked, false); i >= 0 {
		return &Error{Op: "choose", Path: c.o.Choices[i].Path, Err: ErrNoChange}
	}
	if len(drop) == 0 {
		return nil
	}
	kept := c.nodes[:0:0]
	for i, n := range c.nodes {
		switch {
		case !drop[i]:
			kept = append(kept, n)
		case !n.TimeOnly:
			c.dropped = append(c.dropped, n)
		}
	}
	c.nodes = kept
	return nil
}

// conflictsOf returns what the project's owner did to an object that the session
// changed.
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
		// The ctime of a root changes with every file made in it, and what it was
		// like is known. What could not be copied onto the upper directory cannot be
		// compared.
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

// bothMade reports whether the project had nothing at a place when the command had ended that made
// something there.
func (c *commit) bothMade(n *node) bool {
	_, ok := c.entry(store.Place{Root: n.root, Path: n.Path})
	return !ok && c.account && !n.Origin && n.HasUp
}

// entry tells what was kept of the project's object at a place.
func (c *commit) entry(at store.Place) (baseEntry, bool) {
	if c.kept == nil {
		var err error
		c.kept, err = c.s.known()
		if c.account = err == nil && c.kept != nil; !c.account {
			c.kept = map[store.Place]baseEntry{}
		}
	}
	e, ok := c.kept[at]
	return e, ok
}

// base reads the version of a file that both sides began with, if it was kept.
func (c *commit) base(at store.Place) ([]byte, bool, error) {
	e, _ := c.entry(at)
	return c.s.readBase(e)
}

// changed reports whether somebody else changed the project's object st since
// the session began.
func (c *commit) changed(at store.Place, st tree.Stat) bool {
	if c.tx != nil {
		st.Ctime = c.tx.Doors.CTimes.Before(at, st.Ctime)
	}
	if st.Ctime <= c.s.meta.Created.UnixNano() {
		return false
	}
	if own, ok := c.ledger.At[at]; ok && own.Lower == st.Ctime {
		return false
	}
	if ctime, ok := c.ledger.Files[st.Ino]; ok && st.Nlink > 1 && ctime == st.Ctime {
		return false
	}
	return !c.below[at].holds(st)
}

// A trace is what the commit of the session below left at a place.
type trace struct {
	made  tx.Ident  // zero: nothing
	touch tx.Retime // zero Ino: nothing
}

// holds reports whether st is as the commit left it.
func (tr trace) holds(st tree.Stat) bool {
	return tr.made.Unchanged(st) || tr.touch.Ino != 0 && tr.touch.Ino == st.Ino && tr.touch.After == st.Mtime.Nano()
}

// traces reads what the commits of the session that s stands on did to the project:
// that is no conflict.
func (c *commit) traces() error {
	c.below = map[store.Place]trace{}
	return c.tracesOf(c.s.meta.On, 0)
}

// tracesOf reads those of the session on, and of what that one stands on before.
func (c *commit) tracesOf(on string, depth int) error {
	if on == "" || depth > store.MaxStack {
		return nil
	}
	d, err := store.OpenOwned(c.s.state, on)
	if err == unix.ENOENT && depth > 0 {
		return nil // it ended long ago
	}
	if err != nil {
		return err
	}
	defer d.Close()
	m, err := store.ReadMeta(d)
	if err != nil {
		return err
	}
	if err := c.tracesOf(m.On, depth+1); err != nil {
		return err
	}
	for _, n := range m.Done {
		data, err := d.ReadFile(tx.Name+"/"+strconv.Itoa(n)+"/"+tx.JournalName, store.MetaMost)
		if err != nil {
			return err
		}
		j, err := tx.DecodeJournal(data, len(m.Roots))
		if err != nil {
			return err
		}
		c.addTraces(m, j)
	}
	return nil
}

// addTraces adds what a transaction of the session with the data m did.
func (c *commit) addTraces(m *store.Meta, j *tx.Journal) {
	// Roots are those of the session below, or some of them.
	at := func(root int, p store.Text) (store.Place, bool) {
		i, ok := c.s.meta.RootOf(m.Roots[root].Path)
		return store.Place{Root: i, Path: string(p)}, ok
	}
	for _, n := range j.Nodes {
		if pl, ok := at(n.Root, n.Path); ok && n.New.Ino != 0 {
			c.below[pl] = trace{made: n.New}
		}
	}
	for _, a := range j.Attrs {
		n := j.Nodes[a.Node]
		if pl, ok := at(n.Root, n.Path); ok {
			id := n.Old
			id.Mode, id.UID, id.GID = id.Mode&unix.S_IFMT|a.After.Mode, a.After.UID, a.After.GID
			c.below[pl] = trace{made: id}
		}
	}
	for _, r := range j.Times {
		if pl, ok := at(r.Root, r.Path); ok {
			tr := c.below[pl]
			tr.touch = r
			c.below[pl] = tr
		}
	}
}

// conflictError tells of what is in the way of a transaction.
func conflictError(e *tx.ClashError) *ConflictError {
	list := make([]Conflict, len(e.Clashes))
	for i, k := range e.Clashes {
		list[i] = Conflict{Root: k.Root, Path: k.Path, Why: k.Why, Kind: kindNamed(k.Kind)}
		if k.Session != nil {
			list[i].Session = version(*k.Session)
		}
		if k.Project != nil {
			list[i].Project = version(*k.Project)
		}
	}
	return &ConflictError{list}
}

func version(st tree.Stat) Version {
	v := Version{Exists: true, Mode: st.FileMode(), ModTime: time.Unix(0, st.Mtime.Nano())}
	if st.IsReg() {
		v.Size = st.Size
	}
	return v
}

// mergeMost is up to how many bytes files are merged.
const mergeMost = 16 << 20

// merge makes one text of both versions of a file; why says what prevented that without deciding
// for one of them.
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
	n.merged = merged
	return nil, nil
}
