//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// public turns errors of the packages below into those that this package documents.
func public(err error) error { return told(err, nil) }

// public is public for an operation on the session: where an error names no file, it names the session.
func (s *Session) public(op string, err error) error {
	return told(err, func(bare unix.Errno) error { return &Error{Op: op, Path: s.path, Err: bare} })
}

func told(err error, bare func(unix.Errno) error) error {
	switch e := err.(type) {
	case unix.Errno:
		if bare != nil {
			return bare(e)
		}
	case *fs.PathError:
		return &Error{Op: e.Op, Path: e.Path, Err: public(e.Err)}
	case *Error:
		e.Err = public(e.Err)
	case *CommitError:
		e.Err = told(e.Err, bare)
	case *tree.OwnerError:
		return &OwnerError{UID: e.UID, GID: e.GID, Group: int(e.UID) == os.Geteuid(), Err: e.Err}
	case *tx.ClashError:
		return conflictError(e)
	case interface{ Unwrap() []error }:
		list := e.Unwrap()
		if errors.Join(list...).Error() != err.Error() {
			break // it has words of its own
		}
		all := make([]error, len(list))
		for i := range list {
			all[i] = told(list[i], bare)
		}
		return errors.Join(all...)
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
	v := Version{Exists: true, Mode: st.FileMode(), ModTime: time.Unix(st.Mtime.Unix())}
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
