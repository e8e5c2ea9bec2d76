//go:build linux

package host

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
)

// Secrets blocks those of HiddenPaths that exist, for each of Homes, and returns also what is absent in the home
// directory of, which may be empty. If there are no homes, only the system's secrets are hidden.
func Secrets(of string) (p mounts.Plan, absent []Absent) {
	p = make(mounts.Plan, 0, 16)
	var st unix.Stat_t
	for _, home := range Homes() {
		fd, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			for _, name := range homeSecrets { // what cannot be looked up is better hidden
				p = append(p, mounts.Block(filepath.Join(home, name)))
			}
			continue
		}
		view := newHomeView(fd)
		for _, name := range homeSecrets {
			if view.exists(name) {
				p = append(p, mounts.Block(filepath.Join(home, name)))
			} else if home == of {
				if absent == nil {
					absent = make([]Absent, 0, len(homeSecrets))
				}
				if n, ok := view.absent(name); ok {
					absent = append(absent, n)
				}
			}
		}
		unix.Close(fd)
	}
	for _, name := range HiddenPaths("") {
		if unix.Lstat(name, &st) == nil {
			p = append(p, mounts.Block(name))
		}
	}
	return p, absent
}

// ThroughLinks is a plan that blocks what paths lead to that have symbolic links in them,
// and these paths: what is hidden there stays so, whatever becomes of a link.
func ThroughLinks(p mounts.Plan) (real mounts.Plan, linked []string) {
	real = p[:0:0]
	for _, m := range p {
		at, err := links.Resolve(m.Target, func(string) bool { return false })
		switch {
		case err == nil && at != m.Target:
			linked = append(linked, m.Target)
			m.Target = at
			real = append(real, m)
		case err == nil:
			real = append(real, m)
		default:
			// What cannot be looked up is better hidden. A link to nothing hides nothing.
			if fi, err := os.Lstat(m.Target); err != nil || fi.Mode()&os.ModeSymlink == 0 {
				real = append(real, m)
			}
		}
	}
	return real, linked
}

// IsHidden reports whether a path is, or lies in, something that is hidden unless a rule
// names it; with links also where the names of that lead.
func IsHidden(path string, more mounts.Plan, leads bool) bool {
	var names []string
	for _, home := range append(Homes(), "") {
		names = append(names, HiddenPaths(home)...)
	}
	for _, m := range more {
		names = append(names, m.Target)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		if links.Inside(path, name) || !leads {
			return links.Inside(path, name)
		}
		at, err := filepath.EvalSymlinks(name)
		return err == nil && links.Inside(path, at)
	})
}
