package netpolicy

import (
	"errors"

	"github.com/nsrun/nsrun/internal/escape"
)

// An Error says which step failed on what, and why.
type Error struct {
	Op   string // the step, such as "rule" or "learn"
	Path string // what it was done with: a rule, a name, an address; may be empty
	Err  error
}

func (e *Error) Error() string { return escape.Failure(e.Op, e.Path, e.Err.Error()) }

func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrNotAllowed says that no rule allows a name.
	ErrNotAllowed = errors.New("no rule allows this name")

	// ErrFull says that a table has MaxLearned addresses.
	ErrFull = errors.New("too many addresses are known already")
)
