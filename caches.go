//go:build linux

package nsrun

import (
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay"
)

// caches are directories below the home directory that build tools cannot do
// without. They are readable as they are; what is written to them is gone
// afterwards.
var caches = [...]string{".cache", "go/pkg", ".npm", ".cargo", ".rustup", ".m2/repository", ".gradle", ".ccache", ".yarn", ".bun"}

// buildCaches are what BuildPreset writes to directly. None of them is looked into by
// anything but the tool that it belongs to.
var buildCaches = [...]string{
	".cache/go-build", ".cache/ccache", ".cache/pip", "go/pkg", ".npm/_cacache", ".cargo/registry", ".m2/repository", ".gradle/caches",
	".ccache", ".yarn/cache", ".bun/install/cache",
}

// cacheMounts makes the caches writable, but for those that an overlay cannot hold.
func cacheMounts(s *overlay.Session, home string, table []mounts.Info) (p mounts.Plan, err error) {
	if home == "" {
		return nil, nil
	}
	for _, c := range caches {
		dir := filepath.Join(home, c)
		if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() || within(s, dir) || inside(s.Dir(), dir) {
			continue
		}
		if real, err := realPath(dir); err != nil || mountBelow(table, real) != "" {
			continue
		}
		m, err := s.Scratch(dir)
		if err != nil {
			return nil, err
		}
		p = append(p, m)
	}
	return p, nil
}

// buildMounts are the caches of BuildPreset.
func buildMounts(home string) (p mounts.Plan, err error) {
	if home == "" {
		return nil, nil
	}
	for _, c := range buildCaches {
		real, err := realPath(filepath.Join(home, c))
		if err != nil || real != filepath.Join(home, c) || !links.Own(real) || !isDir(real) {
			continue
		}
		m, err := bindReal(real, true)
		if err != nil {
			return nil, err
		}
		p = append(p, m)
	}
	return p, nil
}

// within reports whether dir is a root of the session or lies in one.
func within(s *overlay.Session, dir string) bool {
	for _, root := range s.Roots() {
		if inside(dir, root.Path) {
			return true
		}
	}
	return false
}

// writableCache reports whether cacheMounts makes ~/.cache writable. Where it does
// not, because there is none yet or no session to keep it in, programs are told
// of another place.
func writableCache(home string, table []mounts.Info) bool {
	if home == "" {
		return false
	}
	dir, err := realPath(filepath.Join(home, ".cache"))
	return err == nil && isDir(filepath.Join(home, ".cache")) && mountBelow(table, dir) == ""
}
