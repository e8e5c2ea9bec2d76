package plan

import (
	"path"

	"github.com/nsrun/nsrun/internal/paths"
)

// Across returns the flag that makes two directories one mount. Between two mounts nothing can be renamed or linked.
func (s *Sandbox) Across(a, b string) (Flag, bool) {
	for _, dir := range [...]string{a, b} {
		at, readOnly := s.topmost(dir)
		if at < 0 || readOnly || s.Layers[at] != RuleLayer && s.Layers[at] != PathLayer {
			return Flag{}, false
		}
	}
	common := a
	for !paths.Inside(b, common) {
		common = path.Dir(common)
	}
	for i, m := range s.Mounts {
		if (s.Layers[i] == SessionLayer || s.Layers[i] == InPlaceLayer) && paths.Inside(m.Target, common) {
			return Flag{}, false // a rule cannot cover a project
		}
	}
	return s.Opening(common)
}

// Apart reports whether two directories are in different mounts.
func (s *Sandbox) Apart(a, b string) bool {
	from, _ := s.topmost(a)
	to, _ := s.topmost(b)
	return from != to
}
