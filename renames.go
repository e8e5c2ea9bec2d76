//go:build linux

package nsrun

import (
	"github.com/nsrun/nsrun/internal/renames"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// rename makes nsrun rename directories for the command, because an overlay refuses that. Supervisors that are attached
// later do it, too.
func (x *Execution) rename(cmd *nsexec.Cmd, roots []string, deny nsexec.Filter) {
	x.endRenames()
	if !x.overlays(roots) {
		return
	}
	_, owners := x.mapsIDs()
	x.renames = &renames.Server{Root: x.ownRoot(), Owners: owners}
	x.renames.Attach(sandbox.Of(cmd), deny)
	cmd.Seccomp = []nsexec.Filter{} // which the server has
}

// overlays reports whether the roots of the command's session are overlays.
func (x *Execution) overlays(roots []string) bool {
	return len(roots) > 0 && (x.session == nil || x.session.Info().Engine != overlay.EngineCopy) && !x.landlock
}

// endRenames waits for renames that have begun: the command has ended.
func (x *Execution) endRenames() {
	if x.renames != nil {
		x.renames.Close()
		x.renames = nil
	}
}
