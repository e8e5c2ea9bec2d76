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
)

// Secrets returns those of HiddenPaths that exist, for each of Homes, and what is absent in the home directory of,
// which may be empty. If there are no homes, only the system's secrets are found.
func Secrets(of string) (list []string, absent []plan.Absent) {
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
		for _, name := range homeSecrets {
			if view.exists(name) {
				list = append(list, filepath.Join(home, name))
			} else if home == of {
				if absent == nil {
					absent = make([]plan.Absent, 0, len(homeSecrets))
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
			list = append(list, name)
		}
	}
	return list, absent
}

// ThroughLinks is a list of paths without symbolic links, and those of the list that have some: what is hidden where
// they lead stays so, whatever becomes of a link.
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
			// What cannot be looked up is better hidden. A link to nothing hides nothing.
			if fi, err := os.Lstat(path); err != nil || fi.Mode()&os.ModeSymlink == 0 {
				real = append(real, path)
			}
		}
	}
	return real, linked
}

// ways are the symbolic links on the way to each of some paths.
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

// WorkingDir is what is known of a working directory that is given by an absolute path with symbolic links: the links, and
// where they lead. Of any other it is empty.
func WorkingDir(name string) (way []plan.Step, at string) {
	if !filepath.IsAbs(name) {
		return nil, ""
	}
	at, err := links.Follow(name, func(string) bool { return false })
	if err != nil || at == filepath.Clean(name) {
		return nil, ""
	}
	return ways([]string{name})[0].Way, at
}

// isHidden reports whether a path is, or lies in, something that is hidden unless a rule
// names it; with links also where the names of that lead.
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
