//go:build linux

package links

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
)

// Written knows the directories to which commands in sandboxes can have written; its method Suspect is for Resolve. The
// zero Written knows the roots of sessions in the default state directory, and all git work trees.
type Written struct {
	StateDir string
	// Dirs returns more directories; it is called at most once. Nil: none.
	Dirs func() []string

	known []string
	asked bool
}

// Suspect reports whether a command can have created a link in dir, a path without links.
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

// WorkTree is the git work tree around dir, an absolute path. A directory of another user never counts.
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

func Own(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && int(st.Uid) == os.Geteuid()
}
