//go:build linux

package tx

import (
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A Log is the transactions of one session.
type Log struct {
	Dir   *tree.Handle // the session's
	Path  string       // its
	Roots []string     // the projects' paths
	Book  *store.Book
	last  int // the number of the transaction that was begun last

	Open    func(root int) (*tree.Handle, error) // opens a project's directory, which it keeps
	Meta    func() *store.Meta
	SetMeta func(*store.Meta, *tree.Flusher) error

	// For tests: rename only as every file system can; stages in the project always; exchanged directories get the time
	// of that.
	Plain, Far, Stamps bool
}
