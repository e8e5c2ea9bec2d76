//go:build linux

package tx

import (
	"cmp"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Forward makes the project as it has to be after the transaction. With fresh, nothing was
// done yet, so every difference from the plan is a conflict.
func (t *Tx) Forward(fresh bool) error {
	t.Begun = true
	if err := t.fetchAll(); err != nil {
		return err
	}
	for i := range t.Journal.Moves {
		if err := t.put(i, fresh); err != nil {
			return t.moveError(i, err)
		}
	}
	return cmp.Or(t.settle(), t.ended())
}

// ended sets the ctime of Objects, so that every later change by somebody has a later one. The exchanges set it, too,
// but on ext4, for example, an exchanged file gets its ctime after its directory.
func (t *Tx) ended() error {
	err := t.Objects.Chmod(0o700)
	if err != nil {
		err = &fs.PathError{Op: "chmod", Path: t.s.Path, Err: err}
	}
	return err
}

// settle gives objects that stay the times and attributes that they have after the transaction.
func (t *Tx) settle() error {
	return tree.InTurn(func() error { return t.setTimes(true) }, t.retimeUpper, func() error { return t.setAttrs(true) }, t.Doors.Relock)
}

// Backward makes the project as it was before the transaction. If something cannot be put
// back, it goes on, and returns an error.
func (t *Tx) Backward() error {
	var errs []error
	for i := len(t.Journal.Moves) - 1; i >= 0 && t.Begun; i-- {
		if t.Progress != nil {
			t.Progress(len(t.Journal.Moves)-1-i, len(t.Journal.Moves))
		}
		if err := t.takeBack(i); err != nil {
			errs = append(errs, t.moveError(i, err))
		}
	}
	errs = append(errs, t.bringAll(), t.setEmptied(), t.setTimes(false), t.setAttrs(false), t.Doors.Relock())
	return errors.Join(errs...)
}

func (t *Tx) moveError(i int, err error) error {
	if conflict, ok := errors.AsType[*ClashError](err); ok {
		return conflict
	}
	return &fs.PathError{Op: "put into place", Path: t.abs(t.Journal.Nodes[t.Journal.Moves[i].First]), Err: err}
}

// Redo makes the project as it has to be after the transaction, but keeps what somebody changed since.
func (t *Tx) Redo() error {
	if err := t.fetchAll(); err != nil {
		return err
	}
	for i := range t.Journal.Moves {
		err := t.put(i, false)
		if _, ok := errors.AsType[*ClashError](err); err != nil && !ok && err != unix.ENOENT {
			return t.moveError(i, err)
		}
	}
	return tree.InTurn(t.dropCopies, t.settle)
}
