//go:build linux

package tx

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Abandon makes the project as it was before the transaction, and removes the transaction.
// It notes in the ledger what nsrun changed in the project.
func (t *Tx) Abandon(l *Ledger) error {
	t.Doors.hold = true
	if err := t.Backward(); err != nil {
		return err // the next process tries again
	}
	t.noteBack(l)
	_ = errors.Join(t.noteCopies(l), t.NoteDoors(l)) // as below
	m := *t.s.Meta()
	l.Save(&m)
	// If this cannot be written, the next commit reports conflicts that are none, which loses nothing. The next process
	// reads in the book which directories nsrun itself changed.
	if t.s.SetMeta(&m, new(tree.Flusher)) == nil {
		t.Doors.unhold()
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return t.End()
}

// End removes a transaction that is no longer in force, except objects that could not be put back.
func (t *Tx) End() error {
	strange, err := t.strange()
	if err != nil {
		return &fs.PathError{Op: "look at", Path: t.s.Path, Err: err}
	}
	if strange || len(t.left) > 0 {
		if err := t.keepAside(); err != nil {
			return err
		}
		errs := []error{}
		for _, e := range t.left {
			errs = append(errs, e)
		}
		if !t.Force { // with Force, the caller asked for that
			errs = append(errs, &fs.PathError{Op: "keep", Path: filepath.Join(t.s.Path, Name, t.aside), Err: ErrAside})
		}
		return errors.Join(errs...)
	}
	if err := tree.InTurn(t.dropLinks, t.remove); err != nil {
		return fmt.Errorf("%w: %w", ErrUntidy, &fs.PathError{Op: "remove", Path: filepath.Join(t.s.Path, Name, strconv.Itoa(t.N)), Err: err})
	}
	return t.s.Book.Unmark()
}

// ErrUntidy is what End wraps if the project is as it has to be, and only the stages are still there.
var ErrUntidy = errors.New("all of it is done, but it cannot be cleaned up")

// dropLinks removes the stages, and new objects that are links to files of the project. It notes the new ctimes that
// these files get.
func (t *Tx) dropLinks() error {
	var l Ledger
	l.Load(t.s.Meta())
	made := map[uint64]bool{}
	for _, n := range t.Journal.Nodes {
		made[n.New.Ino] = true
	}
	var linked []store.Place
	for _, r := range t.Journal.Times {
		at := store.Place{Root: r.Root, Path: string(r.Path)}
		if now, ok := t.look(at); ok && made[r.Ino] && now.Ino == r.Ino && (l.Files[r.Ino] == now.Ctime || l.At[at].Lower == now.Ctime) {
			linked = append(linked, at)
		}
	}
	if err := t.DropStages(); err != nil || linked == nil {
		return err
	}
	if err := tree.RemoveTree(t.dir, ObjectsName); err != nil {
		return err
	}
	for _, at := range linked {
		t.refresh(&l, at)
		if now, ok := t.look(at); ok {
			l.Files[now.Ino] = now.Ctime
		}
	}
	m := *t.s.Meta()
	l.Save(&m)
	_ = t.s.SetMeta(&m, new(tree.Flusher)) // as in Abandon
	return nil
}

// Tidy removes what a finished transaction does not need.
func (t *Tx) Tidy() error {
	if err := t.DropStages(); err != nil {
		return err
	}
	if err := t.s.Book.Unmark(); err != nil {
		return &fs.PathError{Op: "tidy up", Path: t.s.Path, Err: err}
	}
	return nil
}
