//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"time"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// public turns errors of the packages below into those that this package documents.
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

func conflictError(e *tx.ClashError) *ConflictError {
	list := make([]Conflict, len(e.Clashes))
	for i, k := range e.Clashes {
		list[i] = Conflict{Root: k.Root, Path: k.Path, Why: k.Why, Kind: kindNamed(k.Kind)}
		if k.Session != nil {
			list[i].Session = version(*k.Session)
		}
		if k.Project != nil {
			list[i].Project = version(*k.Project)
		}
	}
	return &ConflictError{list}
}

func version(st tree.Stat) Version {
	v := Version{Exists: true, Mode: st.FileMode(), ModTime: time.Unix(0, st.Mtime.Nano())}
	if st.IsReg() {
		v.Size = st.Size
	}
	return v
}

func kindNamed(name string) (k Kind) {
	_ = k.UnmarshalText([]byte(name)) // which was checked when it was read
	return k
}

func stateOf(stored store.State) (s State) {
	_ = s.UnmarshalText([]byte(stored)) // which was checked when it was read
	return s
}

func engineOf(stored store.Engine) (e Engine) {
	_ = e.UnmarshalText([]byte(stored)) // which was checked when it was read
	return e
}

// lastDeed is what Undo takes back.
func lastDeed(m *store.Meta) Deed {
	n := len(m.Dropped)
	drop := n > 0 && m.Dropped[n-1].After == m.LastTx() && (m.State != store.Discarded || m.Thrown)
	switch {
	case m.State == store.Discarded && m.Thrown && !(drop && m.Dropped[n-1].Ended):
		return DiscardDeed
	case drop:
		return DropDeed
	case len(m.Done) > 0:
		return CommitDeed
	}
	return NoDeed
}
