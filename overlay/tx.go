//go:build linux

package overlay

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A transaction owns the directory tx/N of its session:
//
//	journal   what is moved where
//	objects/  new objects until they are moved into the project, and the old ones
//	          they took the place of from then on: the backup
//	copies/   copies of old objects, where the project is on another file system: there
//	          the objects' place is a stage in the project, which goes with the end of
//	          the transaction
//	stages    names of these
type tx struct {
	s   *Session
	n   int
	j   *journal
	dir *tree.Handle // tx/N

	low     []*tree.Handle // the roots
	objects *tree.Handle
	staged  []stage
	stages  []*tree.Handle // by stage; nil: it is gone

	doors doors
	begun bool // the project may have been changed
	plain bool // rename only as every file system can; for tests
	force bool // what somebody else put into a place is moved away

	progress func(Progress) // nil: nobody wants to know

	careful bool // the project may have been used since: what was set may have been changed

	lookErr error        // of look
	seen    *tree.Handle // the project's directory that was looked at last
	seenAt  store.Place

	asIs []int // moves that an undo leaves alone

	// left are objects that could not be put back since somebody else's are in their
	// place. Nil: none. Where the transaction was kept aside for that, aside is its name.
	left  []*Error
	aside string
}

const (
	txName      = "tx"
	objectsName = "objects"
	copiesName  = "copies"
)

// newTx makes the directory of the next transaction. The session is in the list of those
// that are to be looked after before: what is made from then on is removed after a crash.
func (s *Session) newTx() (_ *tx, err error) {
	if err := s.book.MarkPending(); err != nil {
		return nil, err
	}
	if err := s.dir.Mkdir(txName); err != nil && err != unix.EEXIST {
		return nil, err
	}
	top, err := s.dir.OpenDir(txName)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	for _, n := range s.meta.Done {
		s.lastTx = max(s.lastTx, n)
	}
	t := &tx{s: s, j: &journal{Version: journalVersion}}
	for {
		s.lastTx++
		err := top.Mkdir(strconv.Itoa(s.lastTx))
		if err == nil {
			break
		}
		if err != unix.EEXIST {
			return nil, err
		}
	}
	t.n = s.lastTx
	defer func() {
		if err != nil {
			t.close()
			_ = tree.RemoveTree(top, strconv.Itoa(t.n))
			_ = s.book.Unmark()
		}
	}()
	if err := s.book.MarkPending(); err != nil {
		return nil, err
	}
	if t.dir, err = store.OpenOwned(top, strconv.Itoa(t.n)); err != nil {
		return nil, err
	}
	if err := t.dir.Mkdir(objectsName); err != nil {
		return nil, err
	}
	if t.objects, err = t.dir.OpenDir(objectsName); err != nil {
		return nil, err
	}
	return t, t.openRoots()
}

// openTx opens a transaction that was begun before.
func (s *Session) openTx(n int) (_ *tx, err error) {
	t := &tx{s: s, n: n}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.dir, err = store.OpenOwned(s.dir, txName+"/"+strconv.Itoa(n)); err != nil {
		return nil, err
	}
	if data, err := t.dir.ReadFile(stagesName, store.MetaMost); err == nil {
		if t.staged, err = decodeStages(data, len(s.roots)); err != nil {
			return nil, err
		}
	} else if err != unix.ENOENT {
		return nil, err
	}
	data, err := t.dir.ReadFile(journalName, store.MetaMost)
	if err == nil {
		if t.j, err = decodeJournal(data, len(s.roots)); err != nil {
			return nil, err
		}
	} else if err != unix.ENOENT { // without one nothing was done yet
		return nil, err
	}
	t.begun = t.j != nil
	if t.objects, err = t.dir.OpenDir(objectsName); err != nil && err != unix.ENOENT {
		return nil, err
	}
	if err := t.openRoots(); err != nil {
		return nil, err
	}
	return t, t.openStages()
}

// openRoots opens the projects' directories, those that the session was made for.
func (t *tx) openRoots() error {
	t.low = make([]*tree.Handle, len(t.s.roots))
	t.doors = doors{s: t.s, low: t.low}
	for i := range t.s.roots {
		low, err := t.s.root(i)
		if err != nil {
			return err
		}
		if t.low[i], err = low.Open(".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return err
		}
		if err := t.s.meta.Roots[i].Check(low); err != nil {
			return &Error{Op: "open root", Path: t.s.roots[i].Path, Err: err}
		}
	}
	return nil
}

func (t *tx) openStages() error {
	t.stages = make([]*tree.Handle, len(t.staged))
	for i, st := range t.staged {
		h, err := t.low[st.Root].OpenDir(tree.JoinPath(string(st.Dir), st.Name))
		if err != nil && err != unix.ENOENT {
			return err
		}
		t.stages[i] = h
	}
	return nil
}

func (t *tx) close() {
	_ = t.doors.relock() // where that fails, the book tells whoever comes next
	for _, list := range [][]*tree.Handle{t.low, t.stages, {t.objects, t.dir, t.seen}} {
		for _, h := range list {
			h.Close()
		}
	}
}

func (t *tx) abs(n jnode) string { return filepath.Join(t.s.roots[n.Root].Path, string(n.Path)) }

// stage is where the objects of a move wait; nil where that is gone.
func (t *tx) stage(m move) *tree.Handle {
	if m.Stage == 0 {
		return t.objects
	}
	if m.Stage > len(t.stages) {
		return nil
	}
	return t.stages[m.Stage-1]
}

// seal writes the journal, and flushes all that a crash must not take, what staged has
// among it: nothing in the project was changed before.
func (t *tx) seal(staged *tree.Flusher) error {
	data, err := json.Marshal(t.j)
	if err != nil {
		return err
	}
	if int64(len(data)) >= store.MetaMost {
		return unix.EFBIG
	}
	if err := t.s.book.MarkPending(); err != nil { // an undo may begin with this
		return err
	}
	if err := t.dir.ReplaceFile(journalName, data, staged); err != nil {
		return err
	}
	var names tree.Flusher
	defer names.Close()
	if err := t.s.book.AddTo(&names); err != nil {
		return err
	}
	for _, d := range []struct {
		h    *tree.Handle
		name string
	}{{t.dir, objectsName}, {t.dir, "."}, {t.s.dir, txName}, {t.s.dir, "."}} {
		if err := names.AddDir(d.h, d.name); err != nil {
			return err
		}
	}
	return names.Wait()
}

// forward makes the project be as after the transaction. With fresh nothing was done
// yet: then whatever is not as planned is a conflict.
func (t *tx) forward(fresh bool) error {
	t.begun = true
	for i := range t.j.Moves {
		if err := t.put(i, fresh); err != nil {
			return t.moveError(i, err)
		}
	}
	if err := t.setTimes(true); err != nil {
		return err
	}
	if err := t.setAttrs(true); err != nil {
		return err
	}
	return t.doors.relock()
}

// backward makes the project be as before the transaction. It goes on where something
// cannot be put back, and tells.
func (t *tx) backward() error {
	var errs []error
	for i := len(t.j.Moves) - 1; i >= 0; i-- {
		if t.progress != nil {
			t.progress(Progress{Done: len(t.j.Moves) - 1 - i, Total: len(t.j.Moves)})
		}
		if err := t.takeBack(i); err != nil {
			errs = append(errs, t.moveError(i, err))
		}
	}
	errs = append(errs, t.setEmptied(), t.setTimes(false), t.setAttrs(false), t.doors.relock())
	return errors.Join(errs...)
}

func (t *tx) moveError(i int, err error) error {
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		return conflict
	}
	return &Error{Op: "put into place", Path: t.abs(t.j.Nodes[t.j.Moves[i].First]), Err: err}
}

// exchange swaps two names.
func (t *tx) exchange(a *tree.Handle, from string, b *tree.Handle, to string) error {
	if t.plain {
		return unix.EINVAL
	}
	return a.RenameTo(from, b, to, unix.RENAME_EXCHANGE)
}

// across exchanges or moves directories among other objects: x goes from a to b, y the
// other way. A directory that gets another parent must be writable, for whoever is not
// root (rename(2)): it is made so for the moment.
func across(a *tree.Handle, from string, x ident, b *tree.Handle, to string, y ident, rename func() error) error {
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
func (id ident) closed() bool {
	return id.Mode&unix.S_IFMT == unix.S_IFDIR && id.Mode&0o200 == 0 && !tree.IsRoot() && tree.Stat{UID: id.UID}.Owned()
}

// chmod sets the mode of the directory name to what it is to be, and more, if it is
// closed otherwise. That something else is there, or nothing, is no error.
func (id ident) chmod(d *tree.Handle, name string, more uint32) error {
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
func (t *tx) moveNew(a *tree.Handle, from string, b *tree.Handle, to string) error {
	if !t.plain {
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

const (
	whyChanged = "was changed in the project since the session began"
	whyBelow   = "was changed in the project since the session began, in a directory that the session removed"
	whyNow     = "is being changed in the project"
	whyMade    = "was made in the project meanwhile"
	whyMadeToo = "was made in the project, too"
	whyGone    = "was removed from the project since the session began"
)

func (t *tx) conflict(n jnode, why string) error {
	return &ConflictError{[]Conflict{{Root: t.s.roots[n.Root].Path, Path: string(n.Path), Why: why}}}
}

// spare is where an old object is on its way, where two names cannot be exchanged.
func spare(obj string) string { return obj + ".old" }

// theirs is where what somebody else put in the place of an object goes by force.
func theirs(obj string) string { return obj + ".theirs" }

// put does a move, as far as it is not done.
func (t *tx) put(i int, fresh bool) error {
	m := t.j.Moves[i]
	n := t.j.Nodes[m.First]
	dir, name := tree.SplitPath(string(n.Path))
	d, err := t.doors.open(store.Place{Root: n.Root, Path: dir})
	if err != nil {
		return err
	}
	if m.Dir != nil {
		return t.removeEmptied(d, name, n)
	}
	st, obj := t.stage(m), strconv.Itoa(i)
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
	if got, err := st.Lstat(obj); err != nil || !n.Old.unchanged(got) || !t.asFound(st, obj, n, fresh) {
		if back := across(d, name, n.New, st, obj, ident{}, func() error { return t.exchange(st, obj, d, name) }); back != nil {
			return errors.Join(tree.OrMoved(err), back)
		}
		return t.conflict(n, whyNow)
	}
	return nil
}

// carry moves an object to a name at which nothing is.
func (t *tx) carry(a *tree.Handle, from string, id ident, b *tree.Handle, to string) error {
	return across(a, from, id, b, to, ident{}, func() error { return t.moveNew(a, from, b, to) })
}

// moveAway moves the old object out of the project.
func (t *tx) moveAway(d *tree.Handle, name string, st *tree.Handle, to string, n jnode, fresh bool) error {
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
	if got, err := st.Lstat(to); err != nil || !n.Old.unchanged(got) || !t.asFound(st, to, n, fresh) {
		if back := t.moveNew(st, to, d, name); back != nil {
			return errors.Join(tree.OrMoved(err), back)
		}
		return t.conflict(n, whyNow)
	}
	return nil
}

// asFound reports whether a directory that was moved away holds what it held when it was
// looked at: somebody may have made or changed something in it meanwhile.
func (t *tx) asFound(st *tree.Handle, name string, n jnode, fresh bool) bool {
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
func (t *tx) takeBack(i int) error {
	if slices.Contains(t.asIs, i) {
		return nil
	}
	m := t.j.Moves[i]
	n := t.j.Nodes[m.First]
	dir, name := tree.SplitPath(string(n.Path))
	st, obj := t.stage(m), strconv.Itoa(i)
	if st == nil {
		return nil // it was never made, or is gone since all is done
	}
	d, err := t.doors.open(store.Place{Root: n.Root, Path: dir})
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
		if found && !n.New.is(now) && t.force {
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
		if !t.force {
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
func (t *tx) giveBack(d *tree.Handle, name string, st *tree.Handle, obj string, n jnode, now tree.Stat, found bool) error {
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
func (t *tx) leave(n jnode, st *tree.Handle, obj string) error {
	if n.Old.Ino == 0 {
		return nil
	}
	if got, found, err := st.LstatIf(obj); err != nil || !found || !n.Old.is(got) {
		return err
	}
	t.left = append(t.left, &Error{Op: "put back", Path: t.abs(n), Err: errors.New("something else is there; what was there is kept in the session, as " + obj)})
	return nil
}

// setTimes gives the objects that stay their modification times. That somebody changes
// one meanwhile, or that it belongs to somebody else, is no error.
func (t *tx) setTimes(after bool) error {
	for _, r := range slices.Backward(t.j.Times) {
		ns := r.Before
		if after {
			ns = r.After
		}
		dir, name := tree.SplitPath(string(r.Path))
		if r.Path == "." {
			dir, name = ".", "."
		}
		err := func() error {
			d, err := t.doors.open(store.Place{Root: r.Root, Path: dir})
			if err != nil {
				return err
			}
			h, err := d.Open(name, unix.O_PATH|unix.O_NOFOLLOW)
			if err != nil {
				return err
			}
			defer h.Close()
			st, err := h.Stat()
			if err != nil || st.Ino != r.Ino || st.Mtime.Nano() == ns {
				return err
			}
			if !st.IsDir() && st.Mtime.Nano() != r.Before && st.Mtime.Nano() != r.After {
				return nil // somebody wrote to it
			}
			return h.SetMtime(unix.NsecToTimespec(ns))
		}()
		switch err {
		case nil, unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.EPERM, unix.EACCES:
		default:
			return &Error{Op: "set time of", Path: filepath.Join(t.s.roots[r.Root].Path, string(r.Path)), Err: err}
		}
	}
	return nil
}

// removeEmptied removes a directory that what was in it was moved out of.
func (t *tx) removeEmptied(d *tree.Handle, name string, n jnode) error {
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
func (t *tx) makeEmptied(d *tree.Handle, name string, n jnode) error {
	err := d.Mkdir(name)
	if err != unix.EEXIST {
		return err
	}
	if now, err := d.Lstat(name); err != nil || now.IsDir() {
		return err
	}
	t.left = append(t.left, &Error{Op: "put back", Path: t.abs(n), Err: errors.New("something else is there; what was in this directory is kept in the session")})
	return nil
}

// setEmptied gives the directories that were made again their attributes, the innermost
// first, as they stand in the journal.
func (t *tx) setEmptied() error {
	for _, m := range t.j.Moves {
		if m.Dir == nil {
			continue
		}
		n := t.j.Nodes[m.First]
		err := func() error {
			if now, ok := t.look(store.Place{Root: n.Root, Path: string(n.Path)}); ok {
				n.Old.Ino, n.Old.Mode = now.Ino, now.Mode
			}
			if err := t.setAccess(n, m.Dir.Access); err != nil {
				return err
			}
			h, err := t.low[n.Root].Open(string(n.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
			if err != nil {
				return err
			}
			defer h.Close()
			return h.SetMtime(unix.NsecToTimespec(m.Dir.Mtime))
		}()
		if err != nil && err != unix.ENOENT && !tree.Swapped(err) && err != ErrMoved {
			return &Error{Op: "set attributes of", Path: t.abs(n), Err: err}
		}
	}
	return nil
}

// setAttrs gives directories that stay the attributes from before or after.
func (t *tx) setAttrs(after bool) error {
	for _, a := range slices.Backward(t.j.Attrs) {
		n := t.j.Nodes[a.Node]
		want := a.Before
		if after {
			want = a.After
		}
		if t.careful && !t.stillAs(n, a) {
			continue // somebody changed them since
		}
		if err := t.setAccess(n, want); err != nil && !(!after && (err == unix.ENOENT || err == ErrMoved)) {
			return &Error{Op: "set attributes of", Path: t.abs(n), Err: err}
		}
	}
	return nil
}

// stillAs reports whether a directory has modes and owners that the journal knows.
func (t *tx) stillAs(n jnode, a regard) bool {
	now, ok := t.look(store.Place{Root: n.Root, Path: string(n.Path)})
	return ok && (now.Perm() == a.Before.Mode || now.Perm() == a.After.Mode) &&
		(now.UID == a.Before.UID || now.UID == a.After.UID) && (now.GID == a.Before.GID || now.GID == a.After.GID)
}

// setAccess gives a directory that stays its mode, owner and extended attributes.
func (t *tx) setAccess(n jnode, want access) error {
	at := store.Place{Root: n.Root, Path: string(n.Path)}
	top := t.low[n.Root]
	if !want.Keep && !tree.IsRoot() {
		// Attributes of a directory that is closed to us, who own it, would seem to
		// be none.
		h, err := t.doors.openOne(at, 0o700)
		if err != nil {
			return err
		}
		h.Close()
	}
	d, err := top.OpenDirOrPath(at.Path)
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := d.Stat()
	if err != nil {
		return err
	}
	if n.Path != "." && !n.Old.is(st) {
		return ErrMoved
	}
	if !want.Keep {
		x := tree.Xattrs{}
		for name, v := range want.Xattrs {
			x[name] = string(v)
		}
		if st.Owned() && !tree.IsRoot() {
			x.SetOwner(0o700) // else the list would close it before what is in it is done, see setMode
		}
		if err := d.SetXattrs(x); err != nil {
			return err
		}
	}
	if st.UID != want.UID || st.GID != want.GID {
		if err := d.Chown(want.UID, want.GID); err != nil {
			return err
		}
		if st, err = d.Stat(); err != nil {
			return err
		}
	}
	if _, open := t.doors.widened[at]; st.Perm() == want.Mode && !open {
		return nil
	}
	return t.doors.setMode(at, d, st, want.Mode)
}

// dropStages removes the stages that were made in projects, and what is left in them.
// Their directories' times are as they were.
func (t *tx) dropStages() error {
	if len(t.staged) == 0 {
		return nil
	}
	var errs []error
	for i, st := range t.staged {
		t.stages[i].Close()
		t.stages[i] = nil
		d, err := t.doors.open(store.Place{Root: st.Root, Path: string(st.Dir)})
		if err == nil {
			if _, found, lerr := d.LstatIf(st.Name); lerr != nil || !found {
				err = lerr
			} else {
				err = tree.RemoveTree(d, st.Name)
			}
			if h, herr := d.Open(".", unix.O_PATH|unix.O_DIRECTORY); err == nil && herr == nil {
				if err = h.SetMtime(unix.NsecToTimespec(t.timeOf(st))); err == unix.EPERM || err == unix.EACCES {
					err = nil // it is somebody else's
				}
				h.Close()
			}
		}
		if err != nil && err != unix.ENOENT {
			errs = append(errs, &Error{Op: "remove", Path: filepath.Join(t.s.roots[st.Root].Path, string(st.Dir), st.Name), Err: err})
		}
	}
	if err := t.doors.relock(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	t.staged, t.stages = nil, nil
	return t.dir.Unlink(stagesName, 0)
}

// timeOf is the modification time that a stage's directory is to have when the stage is
// gone: from before it was made, or what the transaction gives it.
func (t *tx) timeOf(st stage) int64 {
	if t.j == nil {
		return st.Before
	}
	for _, r := range t.j.Times {
		if r.Root != st.Root || r.Path != st.Dir {
			continue
		}
		if slices.Contains(t.s.meta.Done, t.n) {
			return r.After
		}
		return r.Before
	}
	return st.Before
}

// remove removes the transaction's directory, and closes it.
func (t *tx) remove() error {
	top, err := t.s.dir.OpenDir(txName)
	if err != nil {
		return err
	}
	defer top.Close()
	t.close()
	return tree.RemoveTree(top, strconv.Itoa(t.n))
}
