//go:build linux

package nsrun

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// What is mounted over a file hides or protects it under one spelling of its name. Where a file system ignores case,
// but the kernel does not know that (FUSE, 9p and NFS, as with the folders that a virtual machine shares), the file has
// other spellings.

var (
	errSpelling = errors.New("its file system ignores case, so commands could open it under another spelling of its name: " +
		"hide its directory, use the engine copy for a project, or accept that (--block-existing)")
	errSpellingKept = errors.New("its file system ignores case, so commands could write to it under another spelling of its name: " +
		"make its directory read-only, or use a session")
)

// hasOneSpelling returns an error if a command could open a file that is hidden or protected.
func (x *Execution) hasOneSpelling(box *plan.Sandbox) error {
	plain := make(map[string]bool)
	for i := range box.Mounts {
		m := &box.Mounts[i]
		if m.Kind == mounts.KindOverlay && len(m.Hide) > 0 && !x.runner.config.BlockExisting && host.IgnoresCase(m.Target) {
			return &Error{Op: "hide", Path: filepath.Join(m.Target, m.Hide[0]), Err: errSpelling}
		}
		hides := m.Kind == mounts.KindBlock || m.Kind == mounts.KindData
		if !hides && !(m.Kind == mounts.KindBind && m.ReadOnly && m.Source == m.Target) {
			continue
		}
		ground := groundOf(box.Mounts[:i], m.Target)
		if ground == nil || !hides && ground.ReadOnly || !host.OtherSpelling(shownBy(ground, m.Target), plain) {
			continue
		}
		switch {
		case !hides:
			return &Error{Op: "protect", Path: m.Target, Err: errSpellingKept}
		case !x.runner.config.BlockExisting:
			return &Error{Op: "hide", Path: m.Target, Err: errSpelling}
		}
		x.notices = append(x.notices, Notice{Kind: NoticeLater, Path: m.Target,
			Text: escape.Quote(m.Target) + " is hidden under one spelling of its name only: its file system ignores case"})
	}
	return nil
}

// groundOf returns the mount in which a path lies, if that shows files of the host. Else it is nil.
func groundOf(list []mounts.Mount, path string) *mounts.Mount {
	for i := range slices.Backward(list) {
		if m := &list[i]; m.Covers() && m.Target != path && paths.Inside(path, m.Target) {
			if m.Kind != mounts.KindBind && m.Kind != mounts.KindOverlay {
				return nil
			}
			return m
		}
	}
	return nil
}

// shownBy returns the path of the host that a mount shows at a path.
func shownBy(m *mounts.Mount, path string) string {
	if m.Kind == mounts.KindOverlay {
		return path // its lowest directory
	}
	return filepath.Join(m.Source, strings.TrimPrefix(path, m.Target))
}
