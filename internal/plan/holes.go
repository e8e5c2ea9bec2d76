package plan

import (
	"slices"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// holePerm is the mode of a directory that is hidden but for what is mounted in it: it can be entered, and not listed.
const holePerm = 0o111

// Hole reports whether m hides a directory, but for what is mounted in it.
func Hole(m *mounts.Mount) bool {
	return m.Kind == mounts.KindTmpfs && m.HasPerm && m.Perm == holePerm
}

// openHoles lets what rules show in a directory that is hidden be mounted: nothing can be in what hides a directory as
// a whole. So that is an empty directory in memory, with mount points, and read-only once it has them.
func (b *building) openHoles() {
	for i := 0; i < len(b.mounts); i++ {
		hidden := &b.mounts[i]
		if hidden.Kind != mounts.KindBlock {
			continue
		}
		last := -1
		for j := i + 1; j < len(b.mounts); j++ {
			m := &b.mounts[j]
			if !m.Covers() {
				continue
			}
			if paths.Inside(hidden.Target, m.Target) {
				break // something else is there from here on
			}
			if m.Kind == mounts.KindBind && paths.Inside(m.Target, hidden.Target) && b.standsOn(j) == i {
				m.ParentPerm, last = holePerm, j
			}
		}
		if last < 0 {
			continue
		}
		hole := mounts.Tmpfs(hidden.Target).WithPerm(holePerm)
		on := b.standsOn(i)
		// What is shown in it makes it, where it lies in a place of the sandbox's own.
		hole.MustExist = on >= 0 && (b.mounts[on].Kind == mounts.KindBind || b.mounts[on].Kind == mounts.KindOverlay)
		hole.Optional = hidden.Optional && hole.MustExist
		b.mounts[i] = hole
		b.mounts = slices.Insert(b.mounts, last+1, mounts.Remount(hole.Target))
		b.from = slices.Insert(b.from, last+1, b.from[last])
	}
}

// standsOn is the index of the mount that mount j is made in.
func (b *building) standsOn(j int) int {
	on := -1
	for i := range b.mounts[:j] {
		if m := &b.mounts[i]; m.Covers() && m.Target != b.mounts[j].Target && paths.Inside(b.mounts[j].Target, m.Target) {
			on = i
		}
	}
	return on
}
