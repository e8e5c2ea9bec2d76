//go:build linux

package overlay

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Access returns the owner and the attributes of one version of a changed object. If that side has
// nothing at this path, the error is fs.ErrNotExist.
func (s *Session) Access(c Change, side Side) (Access, error) {
	a, err := s.access(c, side)
	if err != nil {
		return Access{}, s.versionError("look at", c, err)
	}
	return a, nil
}

func (s *Session) access(c Change, side Side) (Access, error) {
	if c.Path == "." {
		t, err := s.side(c, side)
		if err != nil {
			return Access{}, err
		}
		defer t.Close()
		top, err := t.Top()
		if err != nil {
			return Access{}, err
		}
		return accessOf(top)
	}
	d, name, st, err := s.version(c, side)
	if err != nil {
		return Access{}, err
	}
	defer d.close()
	a := Access{UID: st.UID, GID: st.GID}
	switch {
	case st.IsDir():
		sub, err := d.Dir.Dir(name, st)
		if err != nil {
			return Access{}, err
		}
		return accessOf(sub)
	case st.IsReg():
		// Only files that have attributes need to be opened for them.
		if t, err := d.Traits(name, st); err != nil || !t.Project {
			return a, err
		}
		f, err := d.File(name, st)
		if err != nil {
			return Access{}, err
		}
		defer f.Close()
		x, err := f.Xattrs()
		a.Attributes = x
		return a, err
	}
	return a, nil
}

// accessOf is Access for a directory, which it closes.
func accessOf(d tree.Dir) (Access, error) {
	defer d.Close()
	st, err := d.Stat()
	if err != nil {
		return Access{}, err
	}
	x, err := d.Xattrs()
	return Access{UID: st.UID, GID: st.GID, Attributes: x}, err
}

// Names lists one version of a directory, unsorted. For After, these are the names that the session
// created or changed in it. It uses only Root and Path of c.
func (s *Session) Names(c Change, side Side) ([]string, error) {
	names, err := s.names(c, side)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, s.versionError("list", c, err)
	}
	return names, nil
}

func (s *Session) names(c Change, side Side) ([]string, error) {
	t, err := s.side(c, side)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	d, err := t.At(c.Path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil || side == Before {
		return names, err
	}
	here := names[:0]
	for _, name := range names {
		st, found, err := d.Lstat(name)
		if err != nil {
			return nil, err
		}
		if found && !st.IsWhiteout() {
			here = append(here, name)
		}
	}
	return here, nil
}

// Choose returns the changes that paths select, in the sense of CommitOptions.Paths, and the new
// directories above them. changes must be in the order of Changes.
func (s *Session) Choose(changes []Change, paths []string) ([]Change, error) {
	index := map[string]int{}
	for i, r := range s.roots {
		index[r.Path] = i
	}
	all := make([]node, len(changes))
	for i, c := range changes {
		all[i] = node{Change: c, root: index[c.Root]}
		if c.Kind != Deleted && c.Mode.IsDir() {
			all[i].Up.Mode = unix.S_IFDIR
		}
	}
	chosen, _, err := s.choose(all, CommitOptions{Paths: paths, AllowExec: true})
	if err != nil {
		return nil, err
	}
	list := make([]Change, len(chosen))
	for i, n := range chosen {
		list[i] = n.Change
	}
	return list, nil
}
