package plan

import "github.com/nsrun/nsrun/mounts"

// Owned reports whether a command with ids of its own has the owners' ids in mount i. For the rest of the host it is
// nobody.
func (s *Sandbox) Owned(i int) bool {
	switch s.Mounts[i].Kind {
	case mounts.KindOverlay:
		return true
	case mounts.KindBind:
		switch s.Layers[i] {
		case SessionLayer, InPlaceLayer, ShownLayer, BuildLayer, PlaygroundLayer, RuleLayer, PathLayer, UnixLayer:
			return true
		}
	}
	return false
}
