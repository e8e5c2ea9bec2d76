//go:build linux

package overlay

import (
	"iter"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A node is a Change with what was found on both sides.
type node struct {
	Change
	diff
	root int

	// merged is what a commit makes of a file that both sides changed. Nil: the
	// session's version.
	merged []byte
}

// changeOf is what people are told of a difference in the root with this path.
func changeOf(root string, d *diff) Change {
	c := Change{Kind: kindOf(d), Root: root, Path: d.at, Below: d.inside}
	if c.Kind == 0 {
		return c
	}
	st := d.up
	if c.Kind == Deleted {
		st = d.low
	}
	c.Mode = st.fileMode()
	if st.isReg() {
		c.Size = st.size
		if c.Kind != Deleted {
			c.Links, c.Sparse = st.nlink, st.blocks*512 < st.size
		}
	}
	if d.hasLow {
		c.OldMode = d.low.fileMode()
		if d.low.isReg() {
			c.OldSize = d.low.size
		}
	}
	for _, part := range [...]struct {
		differs bool
		is      Aspect
	}{{d.parts.content, Content}, {d.parts.mode, Mode}, {d.parts.owner, Owner}, {d.parts.attributes, Attributes}} {
		if part.differs && c.Kind == Modified {
			c.Aspects |= part.is
		}
	}
	if d.hasUp {
		c.Special = special(d.up)
		switch {
		case c.Special != "":
		case d.capable:
			c.Special = "has capabilities"
		case c.Kind != Modified:
			c.Special = endless(d.up)
		}
	}
	return c
}

func kindOf(d *diff) Kind {
	switch {
	case !d.changed:
		return 0
	case !d.hasUp:
		return Deleted
	case !d.hasLow:
		return Added
	case d.up.typ() != d.low.typ():
		return TypeChanged
	}
	return Modified
}

// special says why an object gives its user more than a file does.
func special(st stat) string {
	switch typ := st.typ(); {
	case typ == unix.S_IFCHR || typ == unix.S_IFBLK:
		return "is a device node"
	case st.mode&unix.S_ISUID != 0:
		return "is setuid"
	// On a directory the bit gives nobody anything: new files get its group.
	case st.mode&unix.S_ISGID != 0 && typ != unix.S_IFDIR:
		return "is setgid"
	}
	return ""
}

// endless says why a new object is none that programs expect: who reads it, as a build or a search
// reads all files of a project, waits for somebody at the other end.
func endless(st stat) string {
	switch st.typ() {
	case unix.S_IFIFO:
		return "is a FIFO"
	case unix.S_IFSOCK:
		return "is a socket"
	}
	return ""
}

// walkOptions say what is wanted of a walk beside the changes.
type walkOptions struct {
	twins []map[inode]twin // by root, to be filled; nil: not wanted
	times bool             // nodes that are timeOnly, too
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
			if n.deep != nil {
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
			w := walker{root: s.roots[i].Path, times: o.times, retimed: o.retimed}
			w.yield = func(d diff, err error) bool {
				n := node{diff: d, root: i}
				if err == nil {
					n.Change = changeOf(w.root, &d)
					runs.mark(&n, w.takeRepos())
				}
				return yield(n, public(err))
			}
			if o.twins != nil {
				w.twins = o.twins[i]
			}
			if err := s.prepare(&w, i); err != nil {
				if !yield(node{}, err) {
					return
				}
				continue
			}
			ok := w.run()
			w.up.close()
			w.low.close()
			if !ok {
				return
			}
		}
	}
}

// prepare gives w the two sides of its root, and what is known of it.
func (s *Session) prepare(w *walker, i int) (err error) {
	if w.up, w.low, err = s.trees(i); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.created = s.meta.Created.UnixNano()
	r := s.meta.Roots[i]
	w.base = ownership{r.Mode, r.UID, r.GID}
	for _, st := range s.meta.Settled {
		if st.Root == i && st.Done {
			if w.settled == nil {
				w.settled = map[string]int64{}
			}
			w.settled[string(st.Path)] = st.Upper
		}
	}
	return nil
}

// trees opens the two sides of root i. They have their own descriptors, so that a walk
// can go on while the session is used or closed.
func (s *Session) trees(i int) (up, low tree, err error) {
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
	l, err := root.open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, &Error{Op: op, Path: s.roots[i].Path, Err: err}
	}
	if low, err = s.lowerTree(i, l); err != nil {
		return nil, nil, err
	}
	if s.stored() && !(s.armed && s.meta.Engine == EngineTmpfs) {
		up, err = s.packed(i)
	} else {
		var u *handle
		u, err = s.area().open(upperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		t := &realTree{h: u, upper: true}
		if !s.readOnly {
			t.unlock = true
			if !s.stored() { // else the tmpfs is gone before anybody could mend modes in it
				t.book, t.unbook = s.bookFor(true, i), s.unnote
			}
		}
		up = t
	}
	if err != nil {
		low.close()
		return nil, nil, &Error{Op: op, Path: filepath.Join(s.areaPath(), upperName(i)), Err: err}
	}
	return up, low, nil
}
