package project

import (
	"errors"
	"io/fs"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/sys"
)

// An Error says which step failed on which file, and why. Err keeps the errno, so that errors.Is(err, fs.ErrPermission)
// and the like work.
type Error struct {
	Op   string // the step, such as "open registry" or "back up"
	Path string // the file; empty: none
	Err  error
}

func (e *Error) Error() string { return escape.Failure(e.Op, e.Path, e.Err.Error()) }

func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrNewer is wrapped if a newer program wrote the database.
	ErrNewer = errors.New("a newer version of nsrun wrote it")

	// ErrDamaged is wrapped if the database cannot be what this package wrote.
	ErrDamaged = errors.New("the registry is damaged")

	// ErrBusy is wrapped if another process kept the database locked for longer than Options.Wait.
	ErrBusy = errors.New("another process is using it")

	// ErrNoVersion is wrapped if a file to be restored has no backup.
	ErrNoVersion = errors.New("there is no backup of it")

	// ErrNetwork is returned for a permission about the network. Access to the network is asked for every time, and
	// never stored.
	ErrNetwork = errors.New("permission for the network is given once, and never stored")
)

// wrap makes an Error of err, unless err already names a step.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{op, path, sys.Bare(err)}
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
