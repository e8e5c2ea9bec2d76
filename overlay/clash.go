//go:build linux

package overlay

import "github.com/nsrun/nsrun/overlay/internal/tree"

const (
	whyChanged = "was changed in the project since the session began"
	whyBelow   = "was changed in the project since the session began, in a directory that the session removed"
	whyNow     = "is being changed in the project"
	whyMade    = "was made in the project meanwhile"
	whyMadeToo = "was made in the project, too"
	whyGone    = "was removed from the project since the session began"
)

// A clash is one path that somebody else changed, which is in the way of a transaction.
type clash struct {
	root string // the root, absolute
	path string // relative to root
	why  string
	kind string // as in the journal

	session, project *tree.Stat // what both sides have there; nil: nothing, or it is not told
}

// A clashError is what is in the way of a transaction; nothing of it is in force.
type clashError struct{ clashes []clash }

func (e *clashError) Error() string { return e.clashes[0].path + " " + e.clashes[0].why }
