//go:build linux

package overlay

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// trees opens the two sides of root i. They have their own descriptors, so that a walk can continue while the session
// is used or closed.
func (s *Session) trees(i int) (up, low tree.Tree, err error) {
	const op = opOpen
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
	if up, err = s.upperTree(i); err != nil {
		low.Close()
		return nil, nil, &Error{Op: op, Path: filepath.Join(s.areaPath(), store.UpperName(i)), Err: err}
	}
	return up, low, nil
}

// upperTree opens what the session wrote, even if it has ended.
func (s *Session) upperTree(i int) (tree.Tree, error) {
	if s.stored() && !(s.armed && s.meta.Engine == store.Tmpfs) {
		return s.packed(i)
	}
	u, err := s.area().Open(store.UpperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	t := &tree.Real{H: u, Upper: true}
	if !s.readOnly {
		t.Unlock = true
		if !s.stored() { // else the tmpfs is gone before anybody could mend modes in it
			t.Book, t.Unbook = s.book.Keeper(true, i), s.book.Unnote
		}
	} else {
		t.H = u.With(&store.Opener{})
	}
	return t, nil
}

// openSides are the two trees of a root, opened on first use. The zero value has none open.
type openSides struct {
	up, low tree.Tree
	lent    bool // somebody else closes them
}

// open opens them, and reports whether it had to.
func (o *openSides) open(s *Session, root int) (opened bool, err error) {
	if o.up != nil {
		return false, nil
	}
	o.up, o.low, err = s.trees(root)
	return true, err
}

func (o *openSides) close() {
	if o.up != nil && !o.lent {
		o.up.Close()
		o.low.Close()
	}
}

// packed opens the stored upper side of root i.
func (s *Session) packed(i int) (tree.Tree, error) {
	h, roots, err := tree.Unpacked(s.dir)
	switch {
	case err == unix.ENOENT && s.busy:
		return nil, errors.New("its changes can be listed only when its command has ended")
	case err == unix.ENOENT:
		return nil, s.lost()
	case err != nil:
		return nil, err
	case len(roots) != len(s.meta.Roots):
		h.Close()
		return nil, tree.ErrIndex
	}
	return &tree.Packed{Root: roots[i], H: h}, nil
}

// lost says why there are no stored changes.
func (s *Session) lost() error {
	if s.meta.Engine == store.Copy {
		return errUnknown
	}
	return errLost
}

var (
	errLost    = errors.New("the changes of its command were in memory and are lost: the program failed or was killed before it could store them")
	errUnknown = errors.New("the changes of its command are not known: the program failed or was killed before it could compare them with the project")
)
