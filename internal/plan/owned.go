package plan

import "github.com/nsrun/nsrun/mounts"

// Owned reports whether what mount i shows is the command's to use: with ids of its own, it has there those of the
// files. To the host's system it is nobody.
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
