package plan

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// Check finds folders that exclude each other. session is one that is continued, with its own roots; discards says that
// it would be discarded.
func (f *Folders) Check(session string, discards bool) error {
	if session != "" && len(f.Overlay) > 0 {
		return &Error{OpUse, f.Overlay[0], errors.New("a continued session already has its roots")}
	}
	if session != "" && discards {
		return &Error{OpUse, session, errors.New("discarding would also discard earlier changes of the session")}
	}
	for _, root := range f.Overlay {
		for _, other := range f.Direct {
			if paths.Inside(root, other) {
				return &Error{OpUse, root, fmt.Errorf("it lies in %s, which commands write to directly", escape.Quote(other))}
			}
		}
	}
	return nil
}

// Hold returns a root that would contain the directory of sessions, and why that is an error.
func (f *Folders) Hold(state, at string) (root string, why error) {
	for _, root := range f.Overlay {
		switch {
		case root == "/":
			return root, errors.New("the whole file system cannot be a root")
		case paths.Inside(at, root):
			return root, fmt.Errorf("it contains the state directory %s", escape.Quote(state))
		}
	}
	return "", nil
}

// Whole refuses roots in which other file systems are mounted: in a user namespace, an overlay could show what these
// hide.
func Whole(roots []string, table []mounts.Info) error {
	for _, root := range roots {
		if below := Below(table, root); below != "" {
			return &MountError{root, below}
		}
	}
	return nil
}
