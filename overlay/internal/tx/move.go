//go:build linux

package tx

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

func (t *Tx) conflict(n Node, why string) error {
	return &ClashError{[]Clash{{Root: t.s.Roots[n.Root], Path: string(n.Path), Why: why}}}
}

// exchange swaps two names. XFS gives directories the time of that: they get back the one they had.
func (t *Tx) exchange(a *tree.Handle, from string, b *tree.Handle, to string) error {
	if t.Plain {
		return unix.EINVAL
	}
	x, xerr := a.Lstat(from)
	y, yerr := b.Lstat(to)
	if err := a.RenameTo(from, b, to, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	if xerr == nil {
		t.keepTime(b, to, x)
	}
	if yerr == nil {
		t.keepTime(a, from, y)
	}
	return nil
}

// keepTime gives a directory the modification time back that it had. Where that is not allowed it has a newer one.
func (t *Tx) keepTime(d *tree.Handle, name string, was tree.Stat) {
	if !was.IsDir() {
		return
	}
	h, err := d.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer h.Close()
	if t.s.Stamps {
		_ = h.SetMtime(unix.Timespec{Nsec: unix.UTIME_NOW})
	}
	if st, err := h.Stat(); err == nil && st.Dev == was.Dev && st.Ino == was.Ino && st.Mtime != was.Mtime {
		_ = h.SetMtime(was.Mtime)
	}
}

// across exchanges or moves directories among other objects: x goes from a to b, y the
// other way. A directory that gets another parent must be writable, for whoever is not
// root (rename(2)): it is made so for the moment.
func across(a *tree.Handle, from string, x Ident, b *tree.Handle, to string, y Ident, rename func() error) error {
	if !x.closed() && !y.closed() {
		return rename()
	}
	if err := x.chmod(a, from, 0o200); err != nil {
		return err
	}
	if err := y.chmod(b, to, 0o200); err != nil {
		return errors.Join(err, x.chmod(a, from, 0))
	}
	if err := rename(); err != nil {
		_, _ = x.chmod(a, from, 0), y.chmod(b, to, 0)
		return err
	}
	return errors.Join(x.chmod(b, to, 0), y.chmod(a, from, 0))
}

// closed reports whether the object is a directory that we own and may not write to.
func (id Ident) closed() bool {
	return id.Mode&unix.S_IFMT == unix.S_IFDIR && id.Mode&0o200 == 0 && !tree.IsRoot() && tree.Stat{UID: id.UID}.Owned()
}

// chmod sets the mode of the directory name to what it is to be, and more, if it is
// closed otherwise. That something else is there, or nothing, is not an error.
func (id Ident) chmod(d *tree.Handle, name string, more uint32) error {
	if !id.closed() {
		return nil
	}
	h, err := d.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		if err == unix.ENOENT || tree.Swapped(err) {
			err = nil
		}
		return err
	}
	defer h.Close()
	st, err := h.Stat()
	if want := id.Mode&0o7777 | more; err == nil && id.is(st) && st.Perm() != want && st.Perm()|0o200 == want|0o200 {
		err = h.Chmod(want)
	}
	return err
}

// moveNew renames to a name at which nothing is.
func (t *Tx) moveNew(a *tree.Handle, from string, b *tree.Handle, to string) error {
	if !t.Plain {
		if err := a.RenameTo(from, b, to, unix.RENAME_NOREPLACE); err != unix.EINVAL {
			return err
		}
	}
	// Not every file system can do it in one step.
	if _, found, err := b.LstatIf(to); err != nil || found {
		return cmp.Or[error](err, unix.EEXIST)
	}
	return a.RenameTo(from, b, to, 0)
}

// spare is where an old object is on its way, where two names cannot be exchanged.
func spare(obj string) string { return obj + ".old" }

// theirs is where what somebody else put in the place of an object goes by force.
func theirs(obj string) string { return obj + ".theirs" }

// put does a move, as far as it is not done.
func (t *Tx) put(i int, fresh bool) error {
	m := t.Journal.Moves[i]
	n := t.Journal.Nodes[m.First]
	dir, name := tree.SplitPath(string(n.Path))
	d, err := t.Doors.open(store.Place{Root: n.Root, Path: dir})
	if err != nil {
		return err
	}
	if m.Dir != nil {
		return t.removeEmptied(d, name, n)
	}
	st, obj := t.Stage(m), strconv.Itoa(i)
	away := false // the old object is out of the way already
	if !fresh {
		now, found, err := d.LstatIf(name)
		switch {
		case err != nil:
			return err
		case n.New.Ino != 0 && found && n.New.is(now), n.New.Ino == 0 && !found:
			if st != nil {
				_ = n.Old.chmod(st, obj, 0)
			}
			return n.New.chmod(d, name, 0) // done
		case n.Old.Ino != 0 && found && n.Old.is(now), n.Old.Ino == 0 && !found:
		case n.Old.Ino != 0 && !found && st != nil:
			// Between the two steps that an exchange took; or somebody removed it since.
			if got, have, err := st.LstatIf(obj); err != nil || !have || !n.New.is(got) {
				return cmp.Or(err, t.conflict(n, whyNow))
			}
			away = true
		default:
			return t.conflict(n, whyNow)
		}
	}
	if st == nil {
		return unix.ENOENT
	}
	switch {
	case n.Old.Ino == 0, away && n.New.Ino != 0:
		err := t.carry(st, obj, n.New, d, name)
		if err == unix.EEXIST {
			return t.conflict(n, whyMade)
		}
		return err
	case n.New.Ino == 0:
		return t.moveAway(d, name, st, obj, n, fresh)
	}
	err = across(st, obj, n.New, d, name, n.Old, func() error { return t.exchange(st, obj, d, name) })
	if err == unix.EINVAL {
		// For a moment there is nothing at the name.
		if err := t.moveAway(d, name, st, spare(obj), n, fresh); err != nil {
			return err
		}
		err := t.carry(st, obj, n.New, d, name)
		if err == unix.EEXIST {
			return t.conflict(n, whyNow)
		}
		return err
	}
	if err == unix.ENOENT {
		return t.conflict(n, whyNow)
	}
	if err != nil {
		return err
	}
	// What was there must be what was compared: somebody may have saved a file a
	// moment ago.
	if got, err := st.Lstat(obj); err != nil || !n.Old.Unchanged(got) || !t.asFound(st, obj, n, fresh) {
		if back := across(d, name, n.New, st, obj, Ident{}, func() error { return t.exchange(st, obj, d, name) }); back != nil {
			return errors.Join(tree.OrMoved(err), back)
		}
		return t.conflict(n, whyNow)
	}
	return nil
}

// carry moves an object to a name at which nothing is.
func (t *Tx) carry(a *tree.Handle, from string, id Ident, b *tree.Handle, to string) error {
	return across(a, from, id, b, to, Ident{}, func() error { return t.moveNew(a, from, b, to) })
}

// moveAway moves the old object out of the project.
func (t *Tx) moveAway(d *tree.Handle, name string, st *tree.Handle, to string, n Node, fresh bool) error {
	if err := t.carry(d, name, n.Old, st, to); err != nil {
		if err == unix.EEXIST { // it was moved before
			if got, err := st.Lstat(to); err == nil && n.Old.is(got) {
				return nil
			}
		}
		if err == unix.ENOENT {
			if got, err := st.Lstat(to); err == nil && n.Old.is(got) {
				return nil
			}
			return t.conflict(n, whyNow)
		}
		return err
	}
	if got, err := st.Lstat(to); err != nil || !n.Old.Unchanged(got) || !t.asFound(st, to, n, fresh) {
		if back := t.moveNew(st, to, d, name); back != nil {
			return errors.Join(tree.OrMoved(err), back)
		}
		return t.conflict(n, whyNow)
	}
	return nil
}

// asFound reports whether a directory that was moved away holds what it held when it was
// looked at: somebody may have made or changed something in it meanwhile.
func (t *Tx) asFound(st *tree.Handle, name string, n Node, fresh bool) bool {
	if !fresh || n.Old.Mode&unix.S_IFMT != unix.S_IFDIR || n.Newest == 0 {
		return true
	}
	below, newest := 0, int64(1)
	_, err := tree.WalkBelow(&tree.Real{H: st, Unlock: true}, name, func(f tree.Found) bool {
		below++
		if !f.Stat.IsDir() && f.Stat.Nlink == 1 {
			newest = max(newest, f.Stat.Ctime)
		}
		return true
	})
	return err == nil && below == n.Below && newest <= n.Newest
}

// takeBack undoes a move, as far as it was done. What somebody else put in the place
// stays there; then the old object stays in the stage.
func (t *Tx) takeBack(i int) error {
	if slices.Contains(t.asIs, i) {
		return nil
	}
	m := t.Journal.Moves[i]
	n := t.Journal.Nodes[m.First]
	dir, name := tree.SplitPath(string(n.Path))
	st, obj := t.Stage(m), strconv.Itoa(i)
	if st == nil {
		return nil // it was never made, or is gone since all is done
	}
	d, err := t.Doors.open(store.Place{Root: n.Root, Path: dir})
	if err != nil {
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
			return t.leave(n, st, obj)
		}
		return err
	}
	if m.Dir != nil {
		return t.makeEmptied(d, name, n)
	}
	now, found, err := d.LstatIf(name)
	if err != nil {
		return err
	}
	if n.Old.Ino == 0 {
		if found && !n.New.is(now) && t.Force {
			return t.moveNew(d, name, st, theirs(obj))
		}
		if !found || !n.New.is(now) {
			return nil
		}
		return t.carry(d, name, n.New, st, obj)
	}
	if found && n.Old.is(now) {
		return n.Old.chmod(d, name, 0)
	}
	old := obj
	got, have, err := st.LstatIf(old)
	if err == nil && !(have && n.Old.is(got)) {
		old = spare(obj)
		got, have, err = st.LstatIf(old)
	}
	switch {
	case err != nil:
		return err
	case !have || !n.Old.is(got):
		return t.giveBack(d, name, st, obj, n, now, found)
	case !found:
		return t.carry(st, old, n.Old, d, name)
	case n.New.Ino == 0 || !n.New.is(now):
		if !t.Force {
			return t.leave(n, st, old)
		}
		if err := t.moveNew(d, name, st, theirs(obj)); err != nil {
			return err
		}
		return t.carry(st, old, n.Old, d, name)
	}
	if old == obj {
		err := across(st, obj, n.Old, d, name, n.New, func() error { return t.exchange(st, obj, d, name) })
		if err != unix.EINVAL {
			return err
		}
		// Exchanged before, but not now: another kernel.
		if err := t.moveNew(st, obj, st, spare(obj)); err != nil {
			return err
		}
	}
	if err := t.carry(d, name, n.New, st, obj); err != nil {
		return err
	}
	return t.carry(st, spare(obj), n.Old, d, name)
}

// giveBack is takeBack where the old object is neither in the project nor in the stage:
// somebody put another one in its place just before it was to be moved away. That one may
// be in the stage, and goes back.
func (t *Tx) giveBack(d *tree.Handle, name string, st *tree.Handle, obj string, n Node, now tree.Stat, found bool) error {
	got, have, err := st.LstatIf(obj)
	switch {
	case err != nil:
		return err
	case found && n.New.is(now) && have && !n.New.is(got):
		err := t.exchange(st, obj, d, name)
		if err != unix.EINVAL {
			return err
		}
		if err := t.moveNew(d, name, st, spare(obj)); err != nil {
			return err
		}
		return t.moveNew(st, obj, d, name)
	case found && n.New.is(now):
		return t.carry(d, name, n.New, st, obj)
	case !found && have && !n.New.is(got):
		return t.moveNew(st, obj, d, name)
	}
	return nil // we never had it
}

// leave notes that an old object stays where it is.
func (t *Tx) leave(n Node, st *tree.Handle, obj string) error {
	if n.Old.Ino == 0 {
		return nil
	}
	if got, found, err := st.LstatIf(obj); err != nil || !found || !n.Old.is(got) {
		return err
	}
	t.left = append(t.left, &fs.PathError{Op: "put back", Path: t.abs(n), Err: errors.New("something else is there; what was there is kept in the session, as " + obj)})
	return nil
}

// removeEmptied removes a directory that what was in it was moved out of.
func (t *Tx) removeEmptied(d *tree.Handle, name string, n Node) error {
	switch err := d.Unlink(name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT, unix.ENOTDIR: // gone, or what takes its place is there
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
		return t.conflict(n, whyNow)
	default:
		return err
	}
}

// makeEmptied makes a directory again, open to us: setEmptied gives it its attributes
// when all is in it.
func (t *Tx) makeEmptied(d *tree.Handle, name string, n Node) error {
	err := d.Mkdir(name)
	if err != unix.EEXIST {
		return err
	}
	if now, err := d.Lstat(name); err != nil || now.IsDir() {
		return err
	}
	t.left = append(t.left, &fs.PathError{Op: "put back", Path: t.abs(n), Err: errors.New("something else is there; what was in this directory is kept in the session")})
	return nil
}
