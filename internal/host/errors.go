//go:build linux

package host

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/internal/escape"
)

// Error says what could not be done, with which path, and why. Err keeps the errno.
type Error struct {
	Op   string
	Path string // empty: none
	Err  error
}

func (e *Error) Error() string {
	s := e.Op
	if e.Path != "" {
		s += " " + escape.Quote(e.Path)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrNotAbsolute says that a path is relative to a directory that nobody has named.
var ErrNotAbsolute = errors.New("path is not absolute")

// Bare takes the path off an error that gets one anyway.
func Bare(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
