package overlay

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// swap puts the staged objects into place. New objects come first, then
// deletions, then the attributes of directories, which may forbid the rest.
func (c *commit) swap() error {
	passes := []struct {
		takes func(*step) bool
		do    func(*step) error
	}{
		{func(st *step) bool { return st.tmp != "" }, c.put},
		{func(st *step) bool { return st.tmp == "" && !st.attrs }, c.delete},
		{func(st *step) bool { return st.attrs }, c.setAttrs},
	}
	for _, pass := range passes {
		// Backwards, so that a directory gets its mode after what is in it.
		for _, st := range slices.Backward(c.steps) {
			if !pass.takes(st) {
				continue
			}
			if err := pass.do(st); err != nil {
				conflict := new(ConflictError)
				if errors.As(err, &conflict) {
					return conflict
				}
				n := c.nodes[st.first]
				return &Error{Op: "put into place", Path: c.abs(place{n.root, n.Path}), Err: err}
			}
			st.done = true
		}
	}
	return c.syncDirs()
}

// exchange swaps two names.
func (c *commit) exchange(d *handle, a, b string) error {
	if c.plain {
		return unix.EINVAL
	}
	return d.rename(a, b, unix.RENAME_EXCHANGE)
}

// moveNew renames from to a name at which nothing is.
func (c *commit) moveNew(d *handle, from, to string) error {
	if !c.plain {
		if err := d.rename(from, to, unix.RENAME_NOREPLACE); err != unix.EINVAL {
			return err
		}
	}
	// Not every file system can do it in one step.
	if _, found, err := d.lstatIf(to); err != nil || found {
		return cmp.Or[error](err, unix.EEXIST)
	}
	return d.rename(from, to, 0)
}

// put moves a new object to its name, and what was there out of the way.
func (c *commit) put(st *step) error {
	n := c.nodes[st.first]
	d, err := c.dir(n.root, false, st.dir)
	if err != nil {
		return err
	}
	if !n.hasLow {
		err := c.moveNew(d, st.tmp, st.name)
		if err == unix.EEXIST {
			return c.conflictNow(n, whyMade)
		}
		return err
	}
	err = c.exchange(d, st.tmp, st.name)
	if err == unix.EINVAL {
		return c.putSlowly(d, n, st)
	}
	if err != nil {
		if _, found, _ := d.lstatIf(st.name); err == unix.ENOENT && !found {
			return c.conflictNow(n, whyNow)
		}
		return err
	}
	// What was there must be what was compared: somebody may have saved a file
	// a moment ago.
	if got, err := d.lstat(st.tmp); err != nil || !got.same(n.low) {
		if back := c.exchange(d, st.tmp, st.name); back != nil {
			st.done, st.old = true, st.tmp
			return errors.Join(orMoved(err), back)
		}
		return c.conflictNow(n, whyNow)
	}
	st.old = st.tmp
	return nil
}

// putSlowly is put where two names cannot be exchanged: for a moment there is
// nothing at the name.
func (c *commit) putSlowly(d *handle, n node, st *step) error {
	if err := c.moveAway(d, n, st); err != nil {
		return err
	}
	err := c.moveNew(d, st.tmp, st.name)
	if err != nil {
		if back := c.moveNew(d, st.old, st.name); back != nil {
			return errors.Join(err, back)
		}
		st.old = ""
		if err == unix.EEXIST {
			return c.conflictNow(n, whyNow)
		}
		c.ours[place{n.root, n.Path}] = true // it was what it had been, but for the ctime
	}
	return err
}

// moveAway moves the object at the step's name to a temporary one.
func (c *commit) moveAway(d *handle, n node, st *step) error {
	old := c.temp()
	if err := c.moveNew(d, st.name, old); err != nil {
		if err == unix.ENOENT {
			return c.conflictNow(n, whyNow)
		}
		return err
	}
	st.old = old
	if got, err := d.lstat(old); err != nil || !got.same(n.low) {
		if back := c.moveNew(d, old, st.name); back != nil {
			return errors.Join(orMoved(err), back)
		}
		st.old = ""
		return c.conflictNow(n, whyNow)
	}
	return nil
}

func (c *commit) delete(st *step) error {
	n := c.nodes[st.first]
	d, err := c.dir(n.root, false, st.dir)
	if err != nil {
		return err
	}
	return c.moveAway(d, n, st)
}

// setAttrs gives a directory that stays the mode, owner and attributes it has in
// the session.
func (c *commit) setAttrs(st *step) error {
	n := c.nodes[st.first]
	want := n.up
	have := n.low
	if n.Path == "." {
		// Only what the sandboxed command changed: the upper directory may not
		// have had the project's owner to begin with.
		b := c.layers[n.root].base
		if want.perm() == b.Mode {
			want.mode = have.mode
		}
		if want.uid == b.UID {
			want.uid = have.uid
		}
		if want.gid == b.GID {
			want.gid = have.gid
		}
	}
	return c.applyAttrs(n, st, want, st.newAttrs)
}

// applyAttrs makes the directory of a step be as want and x say.
func (c *commit) applyAttrs(n node, st *step, want stat, x xattrs) error {
	d, err := c.layers[n.root].low.openDirOrPath(st.name)
	if err != nil {
		return err
	}
	defer d.close()
	got, err := d.stat()
	if err != nil || got.ino != n.low.ino || got.dev != n.low.dev {
		return orMoved(err)
	}
	st.touched = true
	if at := (place{n.root, n.Path}); !c.changed(at, n.low) {
		c.ours[at] = true
	}
	if n.Path != "." {
		if same, err := sameXattrSet(d, x); err != nil {
			return err
		} else if !same {
			if err := d.setXattrs(x); err != nil {
				return err
			}
		}
	}
	if got.uid != want.uid || got.gid != want.gid {
		if err := d.chown(want.uid, want.gid); err != nil {
			return err
		}
	}
	return c.setMode(door{n.root, false, st.name}, d, got, want.perm())
}

func sameXattrSet(d *handle, x xattrs) (bool, error) {
	have, err := d.xattrs()
	if err != nil || len(have) != len(x) {
		return false, err
	}
	for name, v := range x {
		if w, ok := have[name]; !ok || w != v {
			return false, nil
		}
	}
	return true, nil
}

// undo takes back the steps that were begun: attributes first, since a new mode
// may be in the way of the rest.
func (c *commit) undo() error {
	var errs []error
	begun := slices.DeleteFunc(slices.Clone(c.steps), func(st *step) bool {
		return !st.done && st.old == "" && !(st.attrs && st.touched)
	})
	slices.SortStableFunc(begun, func(a, b *step) int {
		switch {
		case a.attrs == b.attrs:
			return 0
		case a.attrs:
			return -1
		}
		return 1
	})
	for _, st := range begun {
		n := c.nodes[st.first]
		if err := c.undoStep(n, st); err != nil {
			errs = append(errs, &Error{Op: "take back", Path: c.abs(place{n.root, n.Path}), Err: err})
			st.done = true // it is there, wholly or in part
			continue
		}
		st.done = false
		// Renaming gave the old object a new ctime.
		if at := (place{n.root, n.Path}); n.hasLow && !c.changed(at, n.low) {
			c.ours[at] = true
		}
	}
	return errors.Join(errs...)
}

func (c *commit) undoStep(n node, st *step) error {
	if st.attrs {
		return c.applyAttrs(n, st, st.before, st.xattrs)
	}
	d, err := c.dir(n.root, false, st.dir)
	if err != nil {
		return err
	}
	switch {
	case st.tmp == "": // a deletion
		err = c.moveNew(d, st.old, st.name)
	case st.old == "": // something new
		err = c.moveNew(d, st.name, st.tmp)
	case st.old == st.tmp:
		err = c.exchange(d, st.tmp, st.name)
	default:
		if st.done {
			err = c.moveNew(d, st.name, st.tmp)
		}
		if err == nil {
			err = c.moveNew(d, st.old, st.name)
		}
	}
	if err == nil {
		st.old = ""
	}
	return err
}

// syncDirs waits until the renames are on disk.
func (c *commit) syncDirs() error {
	if c.many {
		return c.flush()
	}
	seen := map[place]bool{}
	for _, st := range c.steps {
		at := place{c.nodes[st.first].root, st.dir}
		if st.attrs {
			at.path = st.name
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		d, err := c.layers[at.root].low.openDir(at.path)
		if err == unix.EACCES {
			continue // we cannot list it, hence cannot open it for this
		}
		if err == nil {
			err = d.fsync()
			d.close()
		}
		if err != nil {
			return &Error{Op: "flush", Path: c.abs(at), Err: err}
		}
	}
	return nil
}

// tidy removes the objects that were replaced or deleted.
func (c *commit) tidy() error {
	var errs []error
	for _, st := range c.steps {
		if st.old == "" {
			continue
		}
		root := c.nodes[st.first].root
		d, err := c.dir(root, false, st.dir)
		if err == nil {
			err = removeTree(d, st.old)
		}
		if err != nil {
			errs = append(errs, &Error{Op: "remove", Path: c.abs(place{root, joinPath(st.dir, st.old)}), Err: err})
		}
	}
	return errors.Join(errs...)
}
