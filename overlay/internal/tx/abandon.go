//go:build linux

package tx

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// Redo makes sure that the project is as after the transaction. Where somebody did
// something since, that stands.
func (t *Tx) Redo() error {
	for i := range t.Journal.Moves {
		err := t.put(i, false)
		if _, ok := errors.AsType[*ClashError](err); err != nil && !ok && err != unix.ENOENT {
			return t.moveError(i, err)
		}
	}
	if err := t.setTimes(true); err != nil {
		return err
	}
	if err := t.setAttrs(true); err != nil {
		return err
	}
	return t.Doors.Relock()
}

// Abandon makes the project be as before the transaction, and removes that. The ledger
// learns what was done to the project by us.
func (t *Tx) Abandon(l *Ledger) error {
	if err := t.Backward(); err != nil {
		return err // the next command tries again
	}
	t.noteBack(l)
	_ = errors.Join(t.noteCopies(l), t.NoteDoors(l)) // as below
	m := *t.s.Meta()
	l.Save(&m)
	// If this cannot be written, the next commit sees conflicts that are none, and
	// does nothing: safe.
	_ = t.s.SetMeta(&m, nil)
	if err := t.Flush(); err != nil {
		return err
	}
	return t.End()
}

// End removes the transaction, which is not in force any more, but for what could not
// be put back.
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
		if !t.Force { // else it was asked for
			errs = append(errs, &fs.PathError{Op: "keep", Path: filepath.Join(t.s.Path, Name, t.aside), Err: ErrAside})
		}
		return errors.Join(errs...)
	}
	if err := t.DropStages(); err != nil {
		return err
	}
	if err := t.remove(); err != nil {
		return err
	}
	return t.s.Book.Unmark()
}

// keepStages brings what is in the stages of projects to where it can stay.
func (t *Tx) keepStages() error {
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
			return &fs.PathError{Op: "keep", Path: t.s.Path, Err: err}
		}
	}
	return t.DropStages()
}

// Tidy removes what a transaction that is done does not need any more.
func (t *Tx) Tidy() error {
	if err := t.DropStages(); err != nil {
		return err
	}
	if err := t.s.Book.Unmark(); err != nil {
		return &fs.PathError{Op: "tidy up", Path: t.s.Path, Err: err}
	}
	return nil
}
