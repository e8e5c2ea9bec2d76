//go:build linux

package tx

import (
	"errors"
	"io/fs"
	"path/filepath"
)

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
	// If this cannot be written, the next commit reports false conflicts, and
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
