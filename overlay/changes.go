//go:build linux

package overlay

import (
	"iter"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A node is a Change with what was found on both sides.
type node struct {
	Change
	tree.Diff
	root int

	// merged is what a commit makes of a file that both sides changed. Nil: the
	// session's version.
	merged []byte
}

// changeOf is what people are told of a difference in the root with this path.
func changeOf(root string, d *tree.Diff) Change {
	c := Change{Kind: kindOf(d), Root: root, Path: d.At, Below: d.Inside}
	if c.Kind == 0 {
		return c
	}
	st := d.Up
	if c.Kind == Deleted {
		st = d.Low
	}
	c.Mode = st.FileMode()
	if st.IsReg() {
		c.Size = st.Size
		if c.Kind != Deleted {
			c.Links, c.Sparse = st.Nlink, st.Blocks*512 < st.Size
		}
	}
	if d.HasLow {
		c.OldMode = d.Low.FileMode()
		if d.Low.IsReg() {
			c.OldSize = d.Low.Size
		}
	}
	for _, part := range [...]struct {
		differs bool
		is      Aspect
	}{{d.Parts.Content, Content}, {d.Parts.Mode, Mode}, {d.Parts.Owner, Owner}, {d.Parts.Attributes, Attributes}} {
		if part.differs && c.Kind == Modified {
			c.Aspects |= part.is
		}
	}
	if d.HasUp {
		c.Special = special(d.Up)
		switch {
		case c.Special != "":
		case d.Capable:
			c.Special = "has capabilities"
		case c.Kind != Modified:
			c.Special = endless(d.Up)
		}
	}
	return c
}

// kindNamed is a kind that a journal has.
func kindNamed(name string) (k Kind) {
	_ = k.UnmarshalText([]byte(name)) // which was checked when it was read
	return k
}

func kindOf(d *tree.Diff) Kind {
	switch {
	case !d.Changed:
		return 0
	case !d.HasUp:
		return Deleted
	case !d.HasLow:
		return Added
	case d.Up.Typ() != d.Low.Typ():
		return TypeChanged
	}
	return Modified
}

// special says why an object gives its user more than a file does.
func special(st tree.Stat) string {
	switch typ := st.Typ(); {
	case typ == unix.S_IFCHR || typ == unix.S_IFBLK:
		return "is a device node"
	case st.Mode&unix.S_ISUID != 0:
		return "is setuid"
	// On a directory the bit gives nobody anything: new files get its group.
	case st.Mode&unix.S_ISGID != 0 && typ != unix.S_IFDIR:
		return "is setgid"
	}
	return ""
}

// endless says why a new object is none that programs expect: who reads it, as a build or a search
// reads all files of a project, waits for somebody at the other end.
func endless(st tree.Stat) string {
	switch st.Typ() {
	case unix.S_IFIFO:
		return "is a FIFO"
	case unix.S_IFSOCK:
		return "is a socket"
	}
	return ""
}

// walkOptions say what is wanted of a walk beside the changes.
type walkOptions struct {
	twins []map[tree.Inode]tree.Twin // by root, to be filled; nil: not wanted
	times bool                       // nodes that are timeOnly, too
	// retimed counts the files among those. Nil: nobody does.
	retimed *atomic.Int64
	// again says that nothing is decided by the walk: see survey.
	again bool
}

// Changes yields what differs between the session and the project now: root
// after root, within a root in path order, where a directory comes before what
// is in it and names are compared by their bytes. A deleted directory is one
// Change; a new one is a Change, and so is everything in it.
//
// What cannot be looked at is yielded as an error, with a zero Change; the walk
// goes on behind it.
//
// For Change.Runs, directories at the top of a root are searched for repositories by the first
// listing, and again when the root has got other names. A commit always searches.
func (s *Session) Changes() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var retimed atomic.Int64
		for n, err := range s.nodes(walkOptions{retimed: &retimed, again: true}) {
			if n.Deep != nil {
				n.Change = Change{}
			}
			if !yield(n.Change, err) {
				return
			}
		}
		s.retimed.Store(retimed.Load())
	}
}

// Retimed is how many files the last complete walk of Changes met that differ in nothing but
// their modification time. That is no change, but a commit takes it over. Zero: there was no
// walk, or none.
func (s *Session) Retimed() int { return int(s.retimed.Load()) }

// nodes walks all roots.
func (s *Session) nodes(o walkOptions) iter.Seq2[node, error] {
	return func(yield func(node, error) bool) {
		runs := newRunsFinder(s, o.again)
		defer runs.close()
		for i := range s.roots {
			w := tree.Walk{Root: s.roots[i].Path, Times: o.times, Retimed: o.retimed}
			w.Yield = func(d tree.Diff, err error) bool {
				n := node{Change: changeOf(w.Root, &d), Diff: d, root: i}
				if err == nil {
					runs.mark(&n, w.TakeRepos())
				}
				return yield(n, public(err))
			}
			if o.twins != nil {
				w.Twins = o.twins[i]
			}
			if err := s.prepare(&w, i); err != nil {
				if !yield(node{}, err) {
					return
				}
				continue
			}
			ok := w.Run()
			w.Up.Close()
			w.Low.Close()
			if !ok {
				return
			}
		}
	}
}

// prepare gives w the two sides of its root, and what is known of it.
func (s *Session) prepare(w *tree.Walk, i int) (err error) {
	if w.Up, w.Low, err = s.trees(i); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Created = s.meta.Created.UnixNano()
	r := s.meta.Roots[i]
	w.Base = tree.Ownership{Mode: r.Mode, UID: r.UID, GID: r.GID}
	for _, st := range s.meta.Settled {
		if st.Root == i && st.Done {
			if w.Settled == nil {
				w.Settled = map[string]int64{}
			}
			w.Settled[string(st.Path)] = st.Upper
		}
	}
	return nil
}

// trees opens the two sides of root i. They have their own descriptors, so that a walk
// can go on while the session is used or closed.
func (s *Session) trees(i int) (up, low tree.Tree, err error) {
	const op = "open session"
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(op, false); err != nil {
		return nil, nil, err
	}
	root, err := s.root(i)
	if err != nil {
		return nil, nil, err
	}
	l, err := root.Open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, &Error{Op: op, Path: s.roots[i].Path, Err: err}
	}
	if low, err = s.lowerTree(i, l); err != nil {
		return nil, nil, err
	}
	if s.stored() && !(s.armed && s.meta.Engine == store.Tmpfs) {
		up, err = s.packed(i)
	} else {
		var u *tree.Handle
		u, err = s.area().Open(store.UpperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		t := &tree.Real{H: u, Upper: true}
		if !s.readOnly {
			t.Unlock = true
			if !s.stored() { // else the tmpfs is gone before anybody could mend modes in it
				t.Book, t.Unbook = s.book.Keeper(true, i), s.book.Unnote
			}
		}
		up = t
	}
	if err != nil {
		low.Close()
		return nil, nil, &Error{Op: op, Path: filepath.Join(s.areaPath(), store.UpperName(i)), Err: err}
	}
	return up, low, nil
}
