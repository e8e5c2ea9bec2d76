//go:build linux

package host

import (
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/githash"
	"github.com/nsrun/nsrun/overlay"
)

// HomeLayers is the directory of the layers of home directories, beside the sessions.
func HomeLayers() (string, error) {
	sessions, err := overlay.DefaultDir()
	return filepath.Join(filepath.Dir(sessions), "homes"), err
}

// HomeLayer is the layer of a project, for a home directory; both are without symbolic links. An empty project is that
// of commands without one.
func HomeLayer(home, project string) (string, error) {
	all, err := HomeLayers()
	sum := githash.SumSHA256([]byte(home + "\x00" + project))
	name := hex.EncodeToString(sum[:16])
	if readable := plainName(filepath.Base(project)); readable != "" {
		name = readable + "-" + name
	}
	return filepath.Join(all, name), err
}

// CacheNames are the names of caches below a home directory that can be removed, and more.
func CacheNames(more []string) []string { return slices.Concat(caches[:], moreCaches[:], more) }

// moreCaches are directories that programs fill again when they are missing, beside those in caches.
var moreCaches = [...]string{
	".local/share/pnpm/store", ".local/share/uv", ".nuget/packages", ".pub-cache", ".ivy2/cache", ".sbt/boot", ".hex/packages", ".gem", ".bundle/cache",
	".deno", ".opam/download-cache", ".stack", ".cabal/packages", ".gradle/wrapper", ".android/cache", ".conan2/p", ".composer/cache", ".pnpm-store",
	".config/go/telemetry",
}
