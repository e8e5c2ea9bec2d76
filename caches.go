//go:build linux

package nsrun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/host"
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
		if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() || within(s, dir) || links.Inside(s.Dir(), dir) {
			continue
		}
		if real, err := host.RealPath(dir); err != nil || host.MountBelow(table, real) != "" {
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
		real, err := host.RealPath(filepath.Join(home, c))
		if err != nil || real != filepath.Join(home, c) || !links.Own(real) || !host.IsDir(real) {
			continue
		}
		m, err := host.Bind(real, true)
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
		if links.Inside(dir, root.Path) {
			return true
		}
	}
	return false
}

// missingCaches are the variables that name another place for a cache that is not there: nsrun does
// not make what a user's programs did not, and programs that cannot make it either fail. /tmp is the
// sandbox's own.
var missingCaches = [...]struct {
	dir  string   // below the home directory
	set  []string // "~" stands for the home directory
	also string   // a file in which somebody may have chosen another place already; empty: none
}{
	{dir: ".cache", set: []string{"XDG_CACHE_HOME=/tmp/.cache"}},
	{dir: ".npm", set: []string{"npm_config_cache=/tmp/.npm"}},
	// What is installed is no cache, and is refused where it was.
	{dir: "go", set: []string{"GOPATH=/tmp/go", "GOBIN=~/go/bin"}, also: ".config/go/env"},
	{dir: ".cargo", set: []string{"CARGO_HOME=/tmp/.cargo", "CARGO_INSTALL_ROOT=~/.cargo"}},
	{dir: ".gradle", set: []string{"GRADLE_USER_HOME=/tmp/.gradle"}},
	{dir: ".bun", set: []string{"BUN_INSTALL_CACHE_DIR=/tmp/.bun"}},
}

// otherCaches tells programs of another place for caches that are not there, and which commands
// cannot make where they belong: for each one the variables that are set together.
func otherCaches(plan mounts.Plan, home string) (sets [][]string) {
	if home == "" {
		return nil
	}
	for _, c := range missingCaches {
		dir := filepath.Join(home, c.dir)
		chosen := c.also != "" && host.Exists(filepath.Join(home, c.also))
		// One that can be read only is better than an empty one; but for .cache, of which most programs
		// write all that they use.
		if c.dir != ".cache" && host.Exists(dir) || writes(plan, dir) || chosen {
			continue
		}
		set := slices.Clone(c.set)
		for i := range set {
			set[i] = strings.Replace(set[i], "=~/", "="+home+"/", 1)
		}
		sets = append(sets, set)
	}
	return sets
}

// writes reports whether commands can make what they like at a path of the host: the last mount over it
// says so.
func writes(plan mounts.Plan, path string) (yes bool) {
	for _, m := range plan {
		switch m.Kind {
		case mounts.KindBind, mounts.KindOverlay:
			if links.Inside(path, m.Target) {
				yes = !m.ReadOnly
			}
		}
	}
	return yes
}
