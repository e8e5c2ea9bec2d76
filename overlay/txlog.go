//go:build linux

package overlay

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// A txLog is the transactions of one session.
type txLog struct {
	dir   *tree.Handle // the session's
	path  string       // its
	roots []string     // the projects' paths
	book  *store.Book
	last  int // the number of the transaction that was begun last

	open    func(root int) (*tree.Handle, error) // opens a project's directory, which it keeps
	meta    func() *store.Meta
	setMeta func(*store.Meta, *tree.Flusher) error

	// For tests: rename only as every file system can; stages in the project always.
	plain, far bool
}

// begin makes the directory of the next transaction. The session is in the list of those
// that are to be looked after before: what is made from then on is removed after a crash.
func (s *txLog) begin() (_ *tx, err error) {
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
	for _, n := range s.meta().Done {
		s.last = max(s.last, n)
	}
	t := &tx{s: s, j: &journal{Version: journalVersion}}
	for {
		s.last++
		err := top.Mkdir(strconv.Itoa(s.last))
		if err == nil {
			break
		}
		if err != unix.EEXIST {
			return nil, err
		}
	}
	t.n = s.last
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
func (s *txLog) openTx(n int) (_ *tx, err error) {
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

// list lists the directories of transactions, the oldest first.
func (s *txLog) list() ([]int, error) {
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

// recover finishes the transaction n if it is done, or takes it back, and tells which.
func (s *txLog) recover(n int, done bool) (string, error) {
	t, err := s.openTx(n)
	if err != nil {
		return "", err
	}
	defer t.close()
	if done {
		if t.j == nil {
			return "", &fs.PathError{Op: "read journal", Path: s.path, Err: fs.ErrNotExist}
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
	l.load(s.meta())
	return "a commit was taken back", t.abandon(&l)
}
