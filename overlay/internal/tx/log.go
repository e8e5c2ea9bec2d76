//go:build linux

package tx

import (
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A Log is the transactions of one session.
type Log struct {
	Dir   *tree.Handle // the session's
	Path  string       // of Dir
	Roots []string     // the projects' paths
	Book  *store.Book
	last  int   // the number of the newest transaction
	owed  error // see Owed

	Open    func(root int) (*tree.Handle, error) // opens a project's directory; the handle is borrowed
	Meta    func() *store.Meta
	SetMeta func(*store.Meta, *tree.Flusher) error

	// For tests. Plain: use no flags of renameat2(2). Far: always make stages in the project. Stamps: exchanged
	// directories get a new time.
	Plain, Far, Stamps bool
}
