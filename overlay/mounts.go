//go:build linux

package overlay

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// Mounts returns one overlay or bind for each root, for a mounts.Plan: each root appears at its own
// path, and writes there go to the session. They may need the descriptors that Layers returns. The mounts can be
// mounted once. For another command, call Mounts again when they are unmounted.
//
// The mounts have paths, which are looked up again when the sandbox is set up. If a root's path leads
// elsewhere by then, because a user who can rename its parent directories did so, that is an error.
func (s *Session) Mounts() []mounts.Mount {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []mounts.Mount
	if s.lock != nil && s.meta.Engine == store.Overlay {
		if s.mounted {
			_ = s.clearWork() // else mounting them fails
		}
		s.mounted = true
	}
	if s.mem != nil {
		list = append(list, mounts.Layer(0, s.areaPath()))
	}
	for i, r := range s.rootList() {
		var m mounts.Mount
		id := mounts.FileID{Ino: s.meta.Roots[i].Ino} // which nothing is, without a device
		if low, err := s.root(i); err == nil {
			if st, err := low.Stat(); err == nil {
				id = mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
			}
		}
		if s.meta.Engine == store.Copy {
			m = mounts.Bind(r.Upper, r.Path)
		} else {
			m = mounts.Overlay(r.Path, r.Upper, r.Work, s.lowerPaths(i)...)
			m.Same, m.Volatile = id, s.volatile
		}
		m.Onto = id
		list = append(list, m)
	}
	return list
}

// Layers returns the descriptors that Mounts needs: set them as nsexec.Cmd.Layers. They belong to
// the session. Nil: none are needed.
func (s *Session) Layers() []*os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return nil
	}
	if s.layer == nil {
		fd, err := unix.FcntlInt(uintptr(s.mem.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil // then the kind of mount that needs it fails
		}
		s.layer = os.NewFile(uintptr(fd), "tmpfs")
	}
	return []*os.File{s.layer}
}

// lowerPaths returns the lower directories of root i, the topmost first.
func (s *Session) lowerPaths(i int) []string {
	var list []string
	for _, b := range s.below {
		if k, ok := b.Meta.RootOf(s.meta.Roots[i].Path); ok {
			list = append(list, filepath.Join(b.Path, store.UpperName(k)))
		}
	}
	return append(list, s.roots[i].Path)
}
