package plan

import (
	"slices"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// cgroupPath is where the host's cgroup file systems are mounted.
const cgroupPath = "/sys/fs/cgroup"

// showsCgroups reports whether a plan shows the host's cgroup file systems. Their mounts have the root that they have
// for the host. A command in a cgroup namespace of its own sees that root above its own ("/../.."), and programs that
// look in there for their limits, as Java does, find nothing, or fail.
func showsCgroups(p mounts.Plan) bool {
	return slices.ContainsFunc(p, func(m mounts.Mount) bool {
		return m.Kind == mounts.KindBind && (paths.Inside(cgroupPath, m.Source) || paths.Inside(m.Source, cgroupPath))
	})
}
