//go:build linux

package overlay

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Recovered tells what became of a session that something was interrupted in.
type Recovered struct {
	ID   string
	What string // such as "a commit was taken back"; empty: nothing had to be done
}

// Recover finishes or takes back what was interrupted, in all sessions of the state
// directory dir, of which an empty one means DefaultDir. Sessions that are in use are
// passed over. Create, Open and List do it as well; this tells of it.
//
// An error is about the session of the Recovered it comes with: it is looked after
// again next time.
func Recover(dir string) iter.Seq2[Recovered, error] {
	return func(yield func(Recovered, error) bool) {
		statePath, state, err := openStateDir(dir, false)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Recovered{}, err)
			return
		}
		defer state.Close()
		recoverAll(statePath, state, yield)
	}
}

// recoverAll is Recover in an open state directory.
func recoverAll(statePath string, state *tree.Handle, yield func(Recovered, error) bool) {
	d, err := state.OpenDir(store.PendingName)
	if err == unix.ENOENT {
		return
	}
	var names []string
	if err == nil {
		names, err = d.Names()
		d.Close()
	}
	if err != nil {
		yield(Recovered{}, &Error{Op: "look for interrupted sessions", Path: statePath, Err: err})
		return
	}
	slices.Sort(names)
	for _, id := range names {
		if !store.IsName(id) {
			continue
		}
		r, err := recoverOne(statePath, state, id)
		if errors.Is(err, ErrBusy) || err == nil && r.What == "" {
			continue
		}
		if !yield(r, err) {
			return
		}
	}
}

// mend looks after interrupted sessions before a new one begins. One that could not be
// is an error if it has to do with the same roots: nothing may begin on half a commit.
func (s *Session) mend(statePath string) (err error) {
	recoverAll(statePath, s.state, func(r Recovered, rerr error) bool {
		if rerr == nil {
			return true
		}
		info, ierr := readInfo(s.state, statePath, r.ID)
		for _, mine := range s.meta.Roots {
			for _, root := range info.Roots {
				if ierr == nil && (tree.Inside(root.Path, string(mine.Path)) || tree.Inside(string(mine.Path), root.Path)) {
					err = rerr
				}
			}
		}
		return true
	})
	return err
}

// interrupted reports whether the session is to be looked after.
func (s *Session) interrupted() bool {
	if _, found, err := s.dir.LstatIf(store.BookName); found || err != nil {
		return true
	}
	return store.Pending(s.state, s.id)
}

// recoverOne looks after one session.
func recoverOne(statePath string, state *tree.Handle, id string) (Recovered, error) {
	r := Recovered{ID: id}
	fail := func(err error) (Recovered, error) {
		return r, &Error{Op: "recover session", Path: filepath.Join(statePath, id), Err: public(err)}
	}
	own, err := state.Open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fail(err)
	}
	s := &Session{state: own}
	defer s.release()
	if s.dir, s.lock, err = store.LockSession(state, id, store.Caretaker); err == store.ErrGone {
		if err = state.Unlink(store.PendingName+"/"+id, 0); err == nil || err == unix.ENOENT {
			return r, nil
		}
	}
	if err != nil {
		return fail(err)
	}
	if !s.interrupted() {
		return r, nil // its owner has just done it
	}
	if s.meta, err = store.ReadMeta(s.dir); err != nil {
		return fail(err)
	}
	s.name(id, statePath)
	r.What, err = s.recover()
	if err != nil {
		return fail(err)
	}
	return r, nil
}

// recover finishes or takes back what was interrupted, and tells what it did. The
// session is locked.
func (s *Session) recover() (what string, err error) {
	// Whoever comes after a crash of this one must find the session on the list, too.
	if err := s.book.MarkPending(); err != nil && err != unix.ENOSPC && err != unix.EDQUOT && err != unix.EROFS {
		return "", err
	}
	if err := s.closeDoors(); err != nil {
		return "", err
	}
	if what, err = s.finishDiscard(); err != nil {
		return what, err
	}
	if err := s.dropTemporary(); err != nil {
		return what, err
	}
	list, err := s.transactions()
	if err != nil {
		return what, err
	}
	for i, n := range slices.Backward(list) {
		done := slices.Contains(s.meta.Done, n)
		if done && i < len(list)-1 {
			break // what came after it shows that it was finished
		}
		did, err := s.recoverTx(n, done)
		if done && what != "" {
			did = "" // something else was interrupted
		}
		if did != "" {
			what = did
		}
		if err != nil {
			return what, err
		}
	}
	return what, s.book.Unmark()
}

// dropTemporary removes files that were to replace the session's data.
func (s *Session) dropTemporary() error {
	names, err := s.dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "."+store.MetaName+".") {
			if err := s.dir.Unlink(name, 0); err != nil && err != unix.ENOENT {
				return err
			}
		}
	}
	return nil
}

// transactions lists the directories of transactions, the oldest first.
func (s *Session) transactions() ([]int, error) {
	d, err := s.dir.OpenDir(txName)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	var list []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 && strconv.Itoa(n) == name {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

func (s *Session) recoverTx(n int, done bool) (string, error) {
	t, err := s.openTx(n)
	if err != nil {
		return "", err
	}
	defer t.close()
	if done {
		if t.j == nil {
			return "", &Error{Op: "read journal", Path: s.path, Err: fs.ErrNotExist}
		}
		t.careful = true
		if err := t.redo(); err != nil {
			return "", err
		}
		return "a commit was finished", errors.Join(t.flush(), t.dropStages())
	}
	if t.j == nil {
		return "a commit was taken back", errors.Join(t.dropStages(), t.remove())
	}
	// A stage that somebody removed is made again from the copies.
	for _, m := range t.j.Moves {
		if m.Stage != 0 && t.stage(m) == nil {
			if err := t.restage(context.Background()); err != nil {
				return "", err
			}
			break
		}
	}
	var l ledger
	l.load(s.meta)
	return "a commit was taken back", t.abandon(&l)
}

// redo makes sure that the project is as after the transaction. Where somebody did
// something since, that stands.
func (t *tx) redo() error {
	for i := range t.j.Moves {
		err := t.put(i, false)
		if _, ok := errors.AsType[*ConflictError](err); err != nil && !ok && err != unix.ENOENT {
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

// abandon makes the project be as before the transaction, and removes that. The ledger
// learns what was done to the project by us.
func (t *tx) abandon(l *ledger) error {
	if err := t.backward(); err != nil {
		return err // the next command tries again
	}
	t.noteBack(l)
	_ = errors.Join(t.noteCopies(l), t.noteDoors(l)) // as below
	m := *t.s.meta
	l.store(&m)
	// If this cannot be written, the next commit sees conflicts that are none, and
	// does nothing: safe.
	_ = t.s.setMeta(&m, nil)
	if err := t.flush(); err != nil {
		return err
	}
	return t.end()
}

// end removes the transaction, which is not in force any more, but for what could not
// be put back.
func (t *tx) end() error {
	strange, err := t.strange()
	if err != nil {
		return &Error{Op: "look at", Path: t.s.path, Err: err}
	}
	if strange || len(t.left) > 0 {
		if err := t.keepAside(); err != nil {
			return err
		}
		errs := []error{}
		for _, e := range t.left {
			errs = append(errs, e)
		}
		if !t.force { // else it was asked for
			errs = append(errs, &Error{Op: "keep", Path: filepath.Join(t.s.path, txName, t.aside), Err: errAside})
		}
		return errors.Join(errs...)
	}
	if err := t.dropStages(); err != nil {
		return err
	}
	if err := t.remove(); err != nil {
		return err
	}
	return t.s.book.Unmark()
}

// keepStages brings what is in the stages of projects to where it can stay.
func (t *tx) keepStages() error {
	for i, h := range t.stages {
		if h == nil {
			continue
		}
		name := "stage-" + strconv.Itoa(i)
		if err := tree.RemoveTree(t.dir, name); err != nil {
			return err
		}
		src := &tree.Real{H: h}
		top, err := src.Top()
		if err != nil {
			return err
		}
		st, err := top.Stat()
		if err == nil {
			k := tree.Copier{Ctx: context.Background(), Lax: true, Special: tree.IsRoot()}
			if err = k.Tree(top, ".", st, t.dir, name); err == nil {
				err = tree.InTurn(k.FinishDirs, k.Flush.Wait)
			}
			k.Close()
		}
		top.Close()
		if err != nil {
			return &Error{Op: "keep", Path: t.s.path, Err: err}
		}
	}
	return t.dropStages()
}

// tidy removes what a transaction that is done does not need any more.
func (t *tx) tidy() error {
	if err := t.dropStages(); err != nil {
		return err
	}
	if err := t.s.book.Unmark(); err != nil {
		return &Error{Op: "tidy up", Path: t.s.path, Err: err}
	}
	return nil
}

// flush waits until what was renamed in the project is on disk.
func (t *tx) flush() error {
	var f tree.Flusher
	defer f.Close()
	if err := t.flushProject(&f); err != nil {
		return err
	}
	if err := f.Wait(); err != nil {
		return &Error{Op: "flush", Path: t.s.path, Err: err}
	}
	return nil
}

// flushProject gives f what was renamed in the project, as far as it does not wait itself.
func (t *tx) flushProject(f *tree.Flusher) error {
	if len(t.j.Moves) > tree.FsyncMost {
		return t.syncRoots()
	}
	// The backup, too.
	if err := f.AddDir(t.dir, objectsName); err != nil && err != unix.ENOENT {
		return &Error{Op: "flush", Path: t.s.path, Err: err}
	}
	seen := map[store.Place]bool{}
	add := func(at store.Place) error {
		if seen[at] {
			return nil
		}
		seen[at] = true
		err := f.AddDir(t.low[at.Root], at.Path)
		switch err {
		case nil, unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
			return nil
		case unix.EACCES: // we may not list it, hence not open it for this
			return t.syncRoots()
		}
		return &Error{Op: "flush", Path: filepath.Join(t.s.roots[at.Root].Path, at.Path), Err: err}
	}
	for _, m := range t.j.Moves {
		n := t.j.Nodes[m.First]
		dir, _ := tree.SplitPath(string(n.Path))
		if err := add(store.Place{Root: n.Root, Path: dir}); err != nil {
			return err
		}
	}
	for _, a := range t.j.Attrs {
		n := t.j.Nodes[a.Node]
		if err := add(store.Place{Root: n.Root, Path: string(n.Path)}); err != nil {
			return err
		}
	}
	return nil
}

// syncRoots flushes the whole file systems of the roots.
func (t *tx) syncRoots() error {
	for i, low := range t.low {
		d, err := low.OpenDir(".")
		if err == unix.EACCES {
			continue
		}
		if err == nil {
			err = unix.Syncfs(int(d.FD))
			d.Close()
		}
		if err != nil {
			return &Error{Op: "flush", Path: t.s.roots[i].Path, Err: err}
		}
	}
	return nil
}
