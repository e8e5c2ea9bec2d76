//go:build linux

package host

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// caches are directories below the home directory that build tools need. Commands read their content; writes to them
// are gone afterwards.
var caches = [...]string{".cache", "go/pkg", ".npm", ".cargo", ".rustup", ".m2/repository", ".gradle", ".ccache", ".yarn", ".bun"}

// buildCaches are those to which builds write directly. Only the tool that a cache belongs to reads it.
var buildCaches = [...]string{
	".cache/go-build", ".cache/ccache", ".cache/pip", "go/pkg", ".npm/_cacache", ".cargo/registry", ".m2/repository", ".gradle/caches",
	".ccache", ".yarn/cache", ".bun/install/cache",
}

// rootCaches are caches of user root that are not below the home directory: yarn's.
var rootCaches = []string{"/usr/local/share/.cache"}

// Caches are the existing caches that can be shown through an overlay: not those in the roots of a session, which are
// parts of it, and not one that contains the session's own directory.
func Caches(home string, more, roots []string, session string, table []mounts.Info) []string {
	return shownCaches(belowHome(home, slices.Concat(caches[:], more)), roots, session, table)
}

// RootCaches are those of user root that are not below the home directory, as Caches.
func RootCaches(roots []string, session string, table []mounts.Info) []string {
	return shownCaches(rootCaches, roots, session, table)
}

func shownCaches(caches, roots []string, session string, table []mounts.Info) (dirs []string) {
	for _, dir := range caches {
		if !IsDir(dir) || paths.InAny(dir, roots) || paths.Inside(session, dir) {
			continue
		}
		if real, err := RealPath(dir); err == nil && plan.Below(table, real) == "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Builds are the caches that builds write to, and more, if they exist and belong to the caller.
func Builds(home string, more []string) (p mounts.Plan, err error) {
	for _, dir := range belowHome(home, slices.Concat(buildCaches[:], more)) {
		if real, err := RealPath(dir); err != nil || real != dir || !links.Own(real) || !IsDir(real) {
			continue
		}
		m, err := Bind(dir, true)
		if err != nil {
			return nil, err
		}
		p = append(p, m)
	}
	return p, nil
}

var (
	errNotInHome   = errors.New("it is not below the home directory")
	errHiddenCache = errors.New("it is a place of secrets, and hidden")
)

// CachePaths are the names, below the home directory, of the given caches: absolute paths, or paths below "~/".
func CachePaths(home string, dirs []string) (names []string, err error) {
	for _, dir := range dirs {
		at := dir
		if rest, ok := strings.CutPrefix(dir, "~/"); ok {
			at = filepath.Join(home, rest)
		}
		at = filepath.Clean(at)
		name, ok := strings.CutPrefix(at, strings.TrimSuffix(home, "/")+"/")
		switch {
		case !ok:
			return nil, &plan.Error{Op: "use as cache", Path: dir, Err: errNotInHome}
		case slices.ContainsFunc(HiddenPaths(home), func(hidden string) bool { return paths.Inside(at, hidden) }):
			return nil, &plan.Error{Op: "use as cache", Path: dir, Err: errHiddenCache}
		}
		names = append(names, name)
	}
	return names, nil
}

// Present are the existing ones of plan.CachePaths.
func Present(home string) map[string]bool {
	present := make(map[string]bool)
	for _, name := range plan.CachePaths() {
		present[name] = Exists(filepath.Join(home, name))
	}
	return present
}
