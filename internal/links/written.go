//go:build linux

package links

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
)

// Written are the directories that commands in sandboxes write or commit to, as far as
// that can be known: its method Suspect is for Resolve. The zero Written knows those of
// the sessions in the default state directory, and all work trees of git, which are what
// commands work in by default.
type Written struct {
	// StateDir is where sessions are, as for overlay.List.
	StateDir string
	// Dirs are more of them, asked for once at most. Nil: none.
	Dirs func() []string

	known []string
	asked bool
}

// Suspect reports whether a command can have made a link in dir, a path without links.
func (w *Written) Suspect(dir string) bool {
	if _, ok := WorkTree(dir); ok {
		return true
	}
	if !w.asked {
		w.asked = true
		if w.Dirs != nil {
			w.known = w.Dirs()
		}
		for info, err := range overlay.List(w.StateDir) {
			if err != nil {
				continue // it has no roots to tell
			}
			for _, root := range info.Roots {
				w.known = append(w.known, root.Path)
			}
		}
	}
	for _, tree := range w.known {
		if paths.Inside(dir, tree) {
			return true
		}
		if real, err := filepath.EvalSymlinks(tree); err == nil && paths.Inside(dir, real) {
			return true
		}
	}
	return false
}

// WorkTree is the git work tree around dir, an absolute path. Directories of others are no
// work tree of the caller's, whatever somebody put into them.
func WorkTree(dir string) (tree string, ok bool) {
	for d := dir; Own(d); d = filepath.Dir(d) {
		if Own(filepath.Join(d, ".git")) {
			return d, true
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	return "", false
}

// Own reports whether there is a file of that name and it is the caller's.
func Own(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && int(st.Uid) == os.Geteuid()
}
