//go:build linux

package overlay

import (
	"errors"
	"io/fs"

	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// public makes errors of the packages below those that are documented here.
func public(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return &Error{Op: e.Op, Path: e.Path, Err: public(e.Err)}
	case *Error:
		e.Err = public(e.Err)
	case *CommitError:
		e.Err = public(e.Err)
	case *tx.ClashError:
		return conflictError(e)
	case interface{ Unwrap() []error }:
		list := e.Unwrap()
		if errors.Join(list...).Error() != err.Error() {
			break // it has words of its own
		}
		told := make([]error, len(list))
		for i := range list {
			told[i] = public(list[i])
		}
		return errors.Join(told...)
	}
	return err
}
