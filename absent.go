//go:build linux

package nsrun

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/mounts"
)

// hideLater has the overlay over the home directory hide names: the first part of each that is missing, but for those at
// or above what is mounted.
func hideLater(plan mounts.Plan, home string, names []host.Absent) mounts.Plan {
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		return plan
	}
	at := slices.IndexFunc(plan, func(m mounts.Mount) bool {
		return m.Kind == mounts.KindOverlay && m.ReadOnly && m.Target == home && slices.Equal(m.Lower, []string{home})
	})
	if at < 0 {
		return plan
	}
	needed := make(map[string]bool)
	for _, m := range plan {
		rel, below := strings.CutPrefix(m.Target, home+"/")
		for ; below && rel != "." && !needed[rel]; rel = path.Dir(rel) {
			needed[rel] = true
		}
	}
	plan = slices.Clone(plan)
	over := &plan[at]
	over.Hide = make([]string, 0, len(names))
	for _, n := range names {
		for i := n.From; i <= len(n.Name); i++ {
			if part := n.Name[:i]; (i == len(n.Name) || n.Name[i] == '/') && !needed[part] {
				over.Hide = append(over.Hide, part)
				break
			}
		}
	}
	slices.Sort(over.Hide)
	over.Hide = slices.Compact(over.Hide)
	if len(over.Hide)+len(over.Dirs) == 0 {
		return slices.Delete(plan, at, at+1)
	}
	return plan
}
