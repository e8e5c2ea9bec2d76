package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

const PlaygroundName = "playground"

const tryHome = "try: export HOME=DIR, with a directory that only you can write to"

func (b *building) playground() error {
	b.homeLayer(b.HomeAt, b.HomePerm, b.Layer)
	b.homeLayer(b.Other.At, b.Other.Perm, b.Other.Layer)
	if !b.policy.Playground {
		return nil
	}
	err := b.showPlayground()
	b.hasPlay = err == nil
	if err != nil {
		b.note(NoticePlayground, "", "no playground: "+err.Error())
	}
	return nil
}

func (b *building) showPlayground() error {
	switch {
	case b.Home == "":
		return ErrNoHome
	case b.Playground.Err != nil:
		return b.Playground.Err
	case b.HomeAt == "":
		return fmt.Errorf("%w (%s)", b.HomeErr, tryHome)
	case b.HomeAt == "/":
		return errors.New("the home directory is / (" + tryHome + ")")
	}
	bind := mounts.Bind(b.Playground.Dir, PlaygroundPoint(b.HomeAt))
	bind.Same = b.Playground.Same
	if b.policy.Temp != "" {
		return b.add(bind) // it is used where it is
	}
	return b.mountPoint(bind)
}

func PlaygroundPoint(home string) string { return path.Join(home, PlaygroundName) }

// mountPoint mounts the playground. An overlay over the home directory has the mount point, so nothing is left on the
// host.
func (b *building) mountPoint(bind mounts.Mount) error {
	at := b.coverOf(bind.Target)
	if at < 0 {
		return b.add(bind)
	}
	cover := &b.mounts[at]
	exists := b.Playground.Point == DirPoint
	switch {
	case cover.Kind == mounts.KindTmpfs, cover.Kind == mounts.KindDev && strings.HasPrefix(bind.Target, "/dev/shm/"):
	case cover.Over: // the overlay below it is of this target, too
		below := &b.mounts[at-1]
		below.Dirs = append(slices.Clip(below.Dirs), PlaygroundName)
	case exists && (b.policy.NoHomeOverlay || !asItIs(cover) && cover.Kind != mounts.KindOverlay || b.divided()):
	case cover.Kind == mounts.KindOverlay && exists && b.from[at] == PlaygroundLayer:
	case cover.Kind == mounts.KindOverlay:
		rel := strings.TrimPrefix(strings.TrimPrefix(bind.Target, cover.Target), "/")
		cover.Dirs = append(slices.Clip(cover.Dirs), rel)
	case !asItIs(cover):
		return fmt.Errorf("%s is missing, and would have to be made in a directory that commands write to", escape.Quote(bind.Target))
	case b.policy.NoHomeOverlay || b.divided():
		if b.Playground.Point == OtherPoint {
			return fmt.Errorf("%s is not a directory", escape.Quote(bind.Target))
		}
		if b.Playground.MirrorErr == nil {
			b.insert(at+1, b.Playground.Mirror...)
		}
		return b.Playground.MirrorErr
	default:
		over := mounts.Mount{Kind: mounts.KindOverlay, Target: b.HomeAt, Lower: []string{b.HomeAt}, ReadOnly: true}
		if !exists { // else hideLater has something for it, or takes it out
			over.Dirs = []string{PlaygroundName}
		}
		b.insert(at+1, over.WithPerm(b.HomePerm))
	}
	return b.add(bind)
}

// coverOf is the index of the mount that covers a path, or negative.
func (b *building) coverOf(name string) int {
	at := -1
	for i, m := range b.mounts {
		switch m.Kind {
		case mounts.KindBind, mounts.KindTmpfs, mounts.KindOverlay, mounts.KindDev, mounts.KindProc:
			if paths.Inside(name, m.Target) {
				at = i
			}
		}
	}
	return at
}

// asItIs reports whether m shows the host's files, read-only.
func asItIs(m *mounts.Mount) bool {
	return m.Kind == mounts.KindBind && m.ReadOnly && m.Source == m.Target
}

func (b *building) divided() bool { return Below(b.Table, b.HomeAt) != "" }

// TakesLayer reports whether writes below a home directory can go to a layer. why says why not; it is empty if commands
// have no such directory, or write to it as a folder.
func (f *Facts) TakesLayer(home string) (ok bool, why string) {
	if home == "" || home == "/" {
		return false, ""
	}
	for _, list := range [...][]string{f.Folders.Overlay, f.Folders.Direct, f.Folders.ReadOnly, f.Folders.Blocked} {
		if paths.InAny(home, list) {
			return false, ""
		}
	}
	if Private(home+"/") && !inTemp(home) {
		return false, "each command has an empty " + escape.Quote(home) + " of its own, which is gone at the end"
	}
	if at := Below(f.Table, home); at != "" {
		return false, "something is mounted in the home directory, at " + escape.Quote(at)
	}
	return true, ""
}

// inTemp reports whether a path is below one of the directories for temporary files, of which commands have their own.
func inTemp(name string) bool {
	return strings.HasPrefix(name, "/tmp/") || strings.HasPrefix(name, "/var/tmp/")
}

// homeLayer shows a home directory through a writable overlay. If it lies in another one with a layer, it is part of
// that.
func (b *building) homeLayer(home string, perm fs.FileMode, layer *HomeLayer) {
	if layer == nil || b.policy.Temp != "" || home == "" || home == "/" || b.policy.NoHomeOverlay || Below(b.Table, home) != "" {
		return
	}
	at := b.coverOf(path.Clean(home))
	if at < 0 || !asItIs(&b.mounts[at]) && !(b.mounts[at].Kind == mounts.KindTmpfs && inTemp(home)) {
		return
	}
	over := mounts.Overlay(home, layer.Upper, layer.Work, home)
	over.Volatile = true // else its end waits until all that anybody wrote to that file system is on disk
	if len(layer.Lower) == 0 {
		b.insert(at+1, over)
		return
	}
	base := mounts.Mount{Kind: mounts.KindOverlay, Target: home, Lower: []string{home}, ReadOnly: true}
	over.Lower, over.Over = layer.Lower, true
	b.insert(at+1, base.WithPerm(perm), over)
}
