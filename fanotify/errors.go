package fanotify

import (
	"errors"

	"github.com/nsrun/nsrun/internal/escape"
)

// An Error says which step failed for which path, and why. Err keeps the errno, so that errors.Is(err,
// fs.ErrPermission) and the like work.
type Error struct {
	Op   string // the step, such as "watch" or "list"
	Path string // what it was done with, absolute where that is known; may be empty
	Err  error
}

func (e *Error) Error() string { return escape.Failure(e.Op, e.Path, e.Err.Error()) }

func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrOverflow comes from the iterator if events were lost because nobody read them fast enough. Events for what
	// changed meanwhile follow.
	ErrOverflow = errors.New("the queue of events was full; looking for what changed meanwhile")

	// ErrRootGone comes from the iterator if a root was removed or renamed: its path now leads to something else,
	// or does not exist. A removed root has no more events; a renamed one is still watched at its new path.
	ErrRootGone = errors.New("the watched directory was removed or renamed")

	// ErrClosed comes from the iterator of a closed Watcher.
	ErrClosed = errors.New("the watcher was closed")

	// ErrBusy comes from the iterator while another iteration is going on.
	ErrBusy = errors.New("another iteration reads the events")
)

// A limitError is an errno that means that a limit of the kernel was reached.
type limitError struct {
	err  error
	hint string
}

func (e *limitError) Error() string { return e.err.Error() + " (" + e.hint + ")" }
func (e *limitError) Unwrap() error { return e.err }
