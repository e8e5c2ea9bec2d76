//go:build linux

package tx

import (
	"context"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Begin makes the directory of the next transaction. Before that, it adds the session to
// the list of sessions to recover, so that after a crash everything is removed.
func (s *Log) Begin() (_ *Tx, err error) {
	if err := s.Book.MarkPending(); err != nil {
		return nil, err
	}
	if err := s.Dir.Mkdir(Name); err != nil && err != unix.EEXIST {
		return nil, err
	}
	top, err := s.Dir.OpenDir(Name)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	for _, n := range s.Meta().Done {
		s.last = max(s.last, n)
	}
	t := &Tx{s: s, Journal: &Journal{Version: journalVersion}, Doors: Doors{s: s}, since: now()}
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
	t.N = s.last
	defer func() {
		if err != nil {
			t.Close()
			_ = tree.RemoveTree(top, strconv.Itoa(t.N))
			_ = s.Book.Unmark()
		}
	}()
	if err := s.Book.MarkPending(); err != nil {
		return nil, err
	}
	if t.dir, err = store.OpenOwned(top, strconv.Itoa(t.N)); err != nil {
		return nil, err
	}
	if err := t.dir.Mkdir(ObjectsName); err != nil {
		return nil, err
	}
	if t.Objects, err = t.dir.OpenDir(ObjectsName); err != nil {
		return nil, err
	}
	return t, t.openRoots()
}

// Reopen opens an earlier transaction.
func (s *Log) Reopen(n int) (_ *Tx, err error) {
	t := &Tx{s: s, N: n, Doors: Doors{s: s}}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.dir, err = store.OpenOwned(s.Dir, Name+"/"+strconv.Itoa(n)); err != nil {
		return nil, err
	}
	if data, err := t.dir.ReadFile(stagesName, store.MetaMost); err == nil {
		if t.staged, err = decodeStages(data, len(s.Roots)); err != nil {
			return nil, err
		}
	} else if err != unix.ENOENT {
		return nil, err
	}
	data, err := t.dir.ReadFile(JournalName, store.MetaMost)
	if err == nil {
		if t.Journal, err = DecodeJournal(data, len(s.Roots)); err != nil {
			return nil, err
		}
	} else if err != unix.ENOENT { // without a journal, nothing was done
		return nil, err
	}
	if t.Begun = t.Journal != nil; t.Begun && slices.ContainsFunc(t.Journal.Moves, func(m Move) bool { return m.Stage != 0 || m.Dir != nil }) {
		t.since = soon() // see noteCopies
	}
	if t.Objects, err = t.dir.OpenDir(ObjectsName); err != nil && err != unix.ENOENT {
		return nil, err
	}
	if err := t.openRoots(); err != nil {
		return nil, err
	}
	return t, t.openStages()
}

// List returns the numbers of the transactions, oldest first.
func (s *Log) List() ([]int, error) {
	names, err := below(s.Dir)
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

// Recover finishes transaction n if it is done, else takes it back. It returns what it did.
func (s *Log) Recover(n int, done bool) (string, error) {
	t, err := s.Reopen(n)
	if err != nil {
		return "", err
	}
	defer t.Close()
	if done {
		if t.Journal == nil {
			return "", &fs.PathError{Op: "read journal", Path: s.Path, Err: fs.ErrNotExist}
		}
		t.careful = true
		if err := t.Redo(); err != nil {
			return "", err
		}
		return "a commit was finished", tree.InTurn(t.Flush, t.DropStages)
	}
	var l Ledger
	l.Load(s.Meta())
	switch {
	case t.Journal == nil: // nothing was done, or End was removing it
		return "a commit was taken back", tree.InTurn(t.DropStages, t.remove)
	case t.Objects == nil:
		return "a commit was taken back", t.settleOwed(&l)
	}
	// A stage that somebody removed is made again from the copies.
	for _, m := range t.Journal.Moves {
		if m.Stage != 0 && t.Stage(m) == nil {
			if err := t.Restage(context.Background()); err != nil {
				return "", err
			}
			break
		}
	}
	return "a commit was taken back", t.Abandon(&l)
}
