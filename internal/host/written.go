//go:build linux

package host

import (
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/pathrule"
)

// Written are the places where commands can have created symbolic links.
type Written struct {
	StateDir string   // of the sessions
	Dirs     []string // that commands write to
	Patterns []string // of more of them
	Builds   bool     // they write to the caches of builds
	Caches   []string // and to more of them, below the home directory
}

// Suspect reports the directories in which commands can have created links, with the present settings or with earlier
// ones.
func (w Written) Suspect() func(dir string) bool {
	known := links.Written{StateDir: w.StateDir, Dirs: func() []string {
		dirs := slices.Clip(w.Dirs) // it may be called by several goroutines
		for _, text := range w.Patterns {
			p, err := pathrule.Parse(text, Variable(Home()))
			if err != nil {
				continue // nothing is run
			}
			base, literal := p.Base()
			if literal || p.Deep() {
				dirs = append(dirs, base)
				continue
			}
			found, _ := Glob(&p, func(string) bool { return false })
			dirs = append(dirs, found...)
		}
		// Other projects' commands may have written to their projects, too.
		if dir, err := DefaultPlayground(); err == nil {
			dirs = append(dirs, dir, filepath.Join(filepath.Dir(dir), projectPlaygrounds))
		}
		if w.Builds {
			dirs = append(dirs, belowHome(Home(), slices.Concat(buildCaches[:], w.Caches))...)
		}
		return dirs
	}}
	return known.Suspect
}
