package plan

import (
	"slices"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// holePerm lets a hidden directory be entered, because something is mounted in it, but not listed.
const holePerm = 0o111

// Hole reports whether m hides a directory except for what is mounted in it.
func Hole(m *mounts.Mount) bool { return m.Kind == mounts.KindTmpfs && m.HasPerm && m.Perm == holePerm }

// openHoles replaces hidden directories in which rules show something by an empty directory in memory with mount
// points, which becomes read-only.
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
		// In a directory of the sandbox's own, the mount in the hole creates it.
		hole.MustExist = on >= 0 && (b.mounts[on].Kind == mounts.KindBind || b.mounts[on].Kind == mounts.KindOverlay)
		hole.Optional = hidden.Optional && hole.MustExist
		b.mounts[i] = hole
		b.mounts = slices.Insert(b.mounts, last+1, mounts.Remount(hole.Target))
		b.from = slices.Insert(b.from, last+1, b.from[last])
	}
}

func (b *building) standsOn(j int) int {
	on := -1
	for i := range b.mounts[:j] {
		if m := &b.mounts[i]; m.Covers() && m.Target != b.mounts[j].Target && paths.Inside(b.mounts[j].Target, m.Target) {
			on = i
		}
	}
	return on
}
