//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// Secrets returns those of HiddenPaths that exist, for each of Homes, and the names that are absent in the home
// directory of, which may be empty, with the modes of directories on the way to them. Without homes it finds only the
// system's secrets.
func Secrets(of string) (list []string, absent []plan.Absent, modes []mounts.Perm) {
	list = make([]string, 0, 16)
	var st unix.Stat_t
	for _, home := range Homes() {
		fd, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			for _, name := range homeSecrets { // what cannot be looked up is better hidden
				list = append(list, filepath.Join(home, name))
			}
			if home != of {
				list = append(list, OtherOwn(home)...)
			}
			continue
		}
		view := newHomeView(fd)
		if home != of {
			for _, dir := range otherOwn {
				if view.exists(dir) {
					list = append(list, filepath.Join(home, dir))
				}
			}
		}
		if home == of {
			absent = make([]plan.Absent, 0, len(homeSecrets))
		}
		for _, name := range homeSecrets {
			exists := view.exists(name)
			if exists {
				list = append(list, filepath.Join(home, name))
			}
			if home == of {
				if n, ok := view.absent(name); ok && !exists {
					absent = append(absent, n)
				}
			}
		}
		if home == of {
			modes = view.modes
		}
		unix.Close(fd)
	}
	for _, name := range HiddenPaths("") {
		if unix.Lstat(name, &st) == nil {
			list = append(list, name)
		}
	}
	return list, absent, modes
}

// ThroughLinks takes a list of paths, and returns it without symbolic links, and those of its paths that have some: the
// targets of links stay hidden, whatever happens to the links.
func ThroughLinks(list []string) (real, linked []string) {
	for _, path := range list {
		at, err := links.Follow(path, func(string) bool { return false })
		switch {
		case err == nil:
			real = append(real, at)
			if at != path {
				linked = append(linked, path)
			}
		default:
			// A path that cannot be looked up is hidden as it is. A link to nothing hides nothing.
			if fi, err := os.Lstat(path); err != nil || fi.Mode()&os.ModeSymlink == 0 {
				real = append(real, path)
			}
		}
	}
	return real, linked
}

// ways are the symbolic links along some paths.
func ways(linked []string) (list []plan.Link) {
	for _, path := range linked {
		l := plan.Link{Name: path}
		for {
			passed := 0
			_, err := links.Follow(path, func(string) bool { passed++; return passed > len(l.Way) })
			link, ok := errors.AsType[*links.Error](err)
			if !ok {
				break
			}
			l.Way = append(l.Way, plan.Step{Link: link.Link, To: link.To})
		}
		list = append(list, l)
	}
	return list
}

// Way returns the symbolic links in the absolute path of a directory, and where they lead. It returns nothing for other
// paths, and for one without links.
func Way(name string) (way []plan.Step, at string) {
	if !filepath.IsAbs(name) {
		return nil, ""
	}
	at, err := links.Follow(name, func(string) bool { return false })
	if err != nil || at == filepath.Clean(name) {
		return nil, ""
	}
	return ways([]string{name})[0].Way, at
}

// isHidden reports whether a path is hidden, or lies in a hidden directory, unless a rule names it; with links, the
// targets of the hidden names count as well.
func isHidden(path string, more []string, leads bool) bool {
	var names []string
	for _, home := range append(Homes(), "") {
		names = append(names, HiddenPaths(home)...)
	}
	names = append(names, more...)
	return slices.ContainsFunc(names, func(name string) bool {
		if paths.Inside(path, name) || !leads {
			return paths.Inside(path, name)
		}
		at, err := filepath.EvalSymlinks(name)
		return err == nil && paths.Inside(path, at)
	})
}
