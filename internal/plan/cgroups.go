package plan

import (
	"slices"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

const cgroupPath = "/sys/fs/cgroup"

// showsCgroups reports whether a plan shows the host's cgroup file systems. In a cgroup namespace their root appears as
// "/../..", and programs that look for their limits there, such as Java, fail.
func showsCgroups(p mounts.Plan) bool {
	return slices.ContainsFunc(p, func(m mounts.Mount) bool {
		return m.Kind == mounts.KindBind && (paths.Inside(cgroupPath, m.Source) || paths.Inside(m.Source, cgroupPath))
	})
}
