//go:build linux

package overlay

import (
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A command that is not the session's first sees what was changed in the project before it began, except in files that
// the session had written by then. So its later changes do not conflict with those.

// writtenMost is how many objects of the session are remembered: looking at them takes a few milliseconds.
const writtenMost = 2000

// noteWritten records what the session has written, for the command that is about to begin.
func (s *Session) noteWritten() {
	s.had, s.began = nil, 0
	if s.stored() || s.meta.On != "" {
		return
	}
	had, seen := map[store.Place]bool{}, 0
	var list func(root int, d *tree.Handle, path string) bool
	list = func(root int, d *tree.Handle, path string) bool {
		names, err := d.Names()
		if err != nil || len(had)+seen+len(names) > writtenMost {
			return false
		}
		for _, name := range names {
			at := store.Place{Root: root, Path: tree.JoinPath(path, name)}
			sub, err := d.OpenDir(name)
			if tree.Swapped(err) {
				had[at] = true
				continue
			}
			if err != nil {
				return false
			}
			mark, _, err := sub.GetXattr(tree.OverlayPrefix + "opaque")
			if err != nil || mark == "y" {
				had[at] = true // and all below is hidden
			} else if !list(root, sub, at.Path) {
				sub.Close()
				return false
			}
			seen++
			sub.Close()
		}
		return true
	}
	for i := range s.roots {
		up, err := s.area().OpenDir(store.UpperName(i))
		if err != nil {
			return
		}
		ok := list(i, up, ".")
		up.Close()
		if !ok {
			return
		}
	}
	s.had = had
}

// saw reports whether the command saw the project's object at a place, whose last change was at ctime.
func (s *Session) saw(at store.Place, ctime int64) bool {
	if s.had == nil || ctime >= s.began {
		return false
	}
	for !s.had[at] {
		dir, _ := tree.SplitPath(at.Path)
		if dir == "." {
			return true
		}
		at.Path = dir
	}
	return false
}

// bornAfter reports whether the session's file was created when the project's file was already as it is now.
func (c *commit) bornAfter(n *node) bool {
	if c.s.stored() || c.s.meta.On != "" {
		return false
	}
	top, err := c.s.area().OpenDir(store.UpperName(n.root))
	if err != nil {
		return false
	}
	defer top.Close()
	h, err := top.Open(n.Path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer h.Close()
	var stx unix.Statx_t
	err = sys.Statx(int(h.FD), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME|unix.STATX_INO, &stx)
	born := unix.StatxTimestamp(stx.Btime)
	return err == nil && stx.Mask&unix.STATX_BTIME != 0 && stx.Ino == n.Up.Ino && born.Sec*1e9+int64(born.Nsec) > n.Low.Ctime
}
