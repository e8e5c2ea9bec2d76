//go:build linux

package tx

import "github.com/nsrun/nsrun/overlay/internal/tree"

const (
	WhyChanged = "was changed in the project since the session began"
	WhyBelow   = "was changed in the project since the session began, in a directory that the session removed"
	whyNow     = "is being changed in the project"
	whyMade    = "was created in the project meanwhile"
	WhyMadeToo = "was also created in the project"
	WhyGone    = "was removed from the project since the session began"
)

// A Clash is a path that somebody else changed, and that prevents a transaction.
type Clash struct {
	Root string // the root, absolute
	Path string // relative to root
	Why  string
	Kind string // as in the journal

	Session, Project *tree.Stat // what both sides have there; nil: nothing, or unknown
}

// A ClashError lists what prevents a transaction. Nothing of the transaction is in force.
type ClashError struct{ Clashes []Clash }

func (e *ClashError) Error() string { return e.Clashes[0].Path + " " + e.Clashes[0].Why }
