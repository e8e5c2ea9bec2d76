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

// exchange swaps two names. XFS sets the times of exchanged directories, so they are restored.
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

// keepTime restores the modification time of a directory. If that is not allowed, the directory keeps the newer one.
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

// across exchanges or moves objects: x goes from a to b, y the other way. A directory that gets another parent must be
// writable for a user who is not root (rename(2)), so it is made writable meanwhile.
func across(a *tree.Handle, from string, x Ident, b *tree.Handle, to string, y Ident, rename func() error) error {
	if !x.closed() && !y.closed() {
		return rename()
	}
	if err := x.chmod(a, from, 0o200); err != nil {
		return err
	}
	if err := y.chmod(b, to, 0o200); err != nil {
		_ = x.chmod(a, from, 0)
		return err
	}
	if err := rename(); err != nil {
		_, _ = x.chmod(a, from, 0), y.chmod(b, to, 0)
		return err
	}
	err, other := x.chmod(b, to, 0), y.chmod(a, from, 0)
	return cmp.Or(err, other)
}

// closed reports whether the object is a directory that the caller owns but may not write to.
func (id Ident) closed() bool {
	return id.Mode&unix.S_IFMT == unix.S_IFDIR && id.Mode&0o200 == 0 && !tree.IsRoot() && tree.Stat{UID: id.UID}.Owned()
}

// chmod sets the mode of a closed directory to its own mode and more. It is not an error if
// something else is there, or nothing.
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

// moveNew renames to a name that is free.
func (t *Tx) moveNew(a *tree.Handle, from string, b *tree.Handle, to string) error {
	if !t.Plain {
		if err := a.RenameTo(from, b, to, unix.RENAME_NOREPLACE); err != unix.EINVAL {
			return err
		}
	}
	// Some file systems cannot do that in one step.
	if _, found, err := b.LstatIf(to); err != nil || found {
		return cmp.Or[error](err, unix.EEXIST)
	}
	return a.RenameTo(from, b, to, 0)
}

// spare is the temporary name of an old object, for file systems that cannot exchange names.
func spare(obj string) string { return obj + ".old" }

// theirs is the name to which Force moves what somebody else put in the place of an object.
func theirs(obj string) string { return obj + ".theirs" }

// put does what is left to do of a move.
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
		if undone, err := t.putTheirs(d, name, st, obj, n); undone || err != nil {
			return err
		}
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
			// An exchange in two steps was interrupted, or somebody removed the object since.
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
		// The name is missing for a moment.
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
	// The old object must be the one that was compared: somebody may have saved the file a moment ago.
	if got, err := st.Lstat(obj); err != nil || !n.Old.Unchanged(got) || !t.asFound(st, obj, n, fresh) {
		if back := across(d, name, n.New, st, obj, Ident{}, func() error { return t.exchange(st, obj, d, name) }); back != nil {
			return errors.Join(tree.OrMoved(err), back)
		}
		return t.conflict(n, whyNow)
	}
	return nil
}

// carry moves an object to a name that is free.
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
		if back := t.carry(st, to, n.Old, d, name); back != nil {
			return errors.Join(tree.OrMoved(err), back)
		}
		return t.conflict(n, whyNow)
	}
	return nil
}

// asFound reports whether a directory that was moved away has the same content as when it
// was compared. Somebody may have made or changed something in it meanwhile.
func (t *Tx) asFound(st *tree.Handle, name string, n Node, fresh bool) bool {
	if !fresh || n.Old.Mode&unix.S_IFMT != unix.S_IFDIR || n.Newest == 0 {
		return true
	}
	below, newest := 0, int64(1)
	_, err := tree.WalkBelow(&tree.Real{H: st.With(&t.opener)}, name, func(f tree.Found) bool {
		below++
		if !f.Stat.IsDir() && f.Stat.Nlink == 1 {
			newest = max(newest, f.Stat.Ctime)
		}
		return true
	})
	return err == nil && below == n.Below && newest <= n.Newest
}

// takeBack undoes what was done of a move. If somebody else put something in the place of
// the object, that stays, and the old object stays in the stage.
func (t *Tx) takeBack(i int) error {
	if slices.Contains(t.asIs, i) {
		return nil
	}
	m := t.Journal.Moves[i]
	n := t.Journal.Nodes[m.First]
	dir, name := tree.SplitPath(string(n.Path))
	st, obj := t.Stage(m), strconv.Itoa(i)
	if st == nil {
		return nil // it was never made, or everything is done and it was removed
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
		// This kernel cannot exchange, the one that did the commit could.
		if err := t.moveNew(st, obj, st, spare(obj)); err != nil {
			return err
		}
	}
	if err := t.carry(d, name, n.New, st, obj); err != nil {
		return err
	}
	return t.carry(st, spare(obj), n.Old, d, name)
}

// giveBack is takeBack if the old object is neither in the project nor in the stage: somebody replaced it just before
// it was moved away. The replacement may be in the stage, and goes back.
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
	return nil // it was never moved
}

// putTheirs makes again what was there before an undo by force, which did not succeed, has put the old object into
// place: what somebody else had put there, or nothing. It reports whether there was such an undo.
func (t *Tx) putTheirs(d *tree.Handle, name string, st *tree.Handle, obj string, n Node) (undone bool, err error) {
	if st == nil {
		return false, nil
	}
	_, aside, err := st.LstatIf(theirs(obj))
	if err != nil {
		return false, err
	}
	now, found, err := d.LstatIf(name)
	if err != nil {
		return false, err
	}
	old := found && n.Old.Ino != 0 && n.Old.is(now)
	if !aside {
		// The new object is neither here nor there: somebody had removed it.
		if _, staged, err := st.LstatIf(obj); err != nil || staged || !old || n.New.Ino == 0 {
			return false, err
		}
	}
	if old {
		if !n.Old.same(now) {
			return true, t.conflict(n, whyNow) // somebody has written to it since
		}
		if err := t.carry(d, name, n.Old, st, obj); err != nil {
			return true, err
		}
	}
	if aside {
		// If there is another object meanwhile, that one stays, and theirs is kept.
		if err = t.moveNew(st, theirs(obj), d, name); err == unix.EEXIST {
			err = t.conflict(n, whyNow)
		}
	}
	return true, err
}

// leave notes that an old object stays where it is.
func (t *Tx) leave(n Node, st *tree.Handle, obj string) error {
	if n.Old.Ino == 0 {
		return nil
	}
	if got, found, err := st.LstatIf(obj); err != nil || !found || !n.Old.is(got) {
		return err
	}
	t.left = append(t.left, &fs.PathError{Op: "put back", Path: t.abs(n), Err: errors.New("something else is there; the former object is kept in the session, as " + obj)})
	return nil
}

// removeEmptied removes a directory whose content was moved out of it.
func (t *Tx) removeEmptied(d *tree.Handle, name string, n Node) error {
	switch err := d.Unlink(name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT, unix.ENOTDIR: // it is gone, or the new object is in its place
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
		return t.conflict(n, whyNow)
	default:
		return err
	}
}

// makeEmptied makes a directory again, with access for the caller. setEmptied gives it its
// attributes when its content is there.
func (t *Tx) makeEmptied(d *tree.Handle, name string, n Node) error {
	err := d.Mkdir(name)
	if err != unix.EEXIST {
		return err
	}
	if now, err := d.Lstat(name); err != nil || now.IsDir() {
		return err
	}
	t.left = append(t.left, &fs.PathError{Op: "put back", Path: t.abs(n), Err: errors.New("something else is there; the contents of this directory are kept in the session")})
	return nil
}
