//go:build linux

package nsrun

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/links"
)

// folders are a Config's folders, by what is done with them. All paths are real.
type folders struct {
	overlay  []string // roots of a session
	direct   []string
	readOnly []string
	blocked  []string
	project  string // empty: none
	notices  []string
}

// opUse begins the errors of folders.
const opUse = "use as project"

// folders resolves the folders; see links.Resolve.
func (c *Config) folders(suspect func(dir string) bool) (f folders, err error) {
	add := func(given, real string, mode Mode) error {
		switch mode {
		case Overlay:
			f.overlay = append(f.overlay, real)
		case Direct:
			f.direct = append(f.direct, real)
		case ReadOnly:
			f.readOnly = append(f.readOnly, real)
		case Blocked:
			f.blocked = append(f.blocked, real)
		default:
			return &Error{opUse, given, errors.New("there is no such mode")}
		}
		return nil
	}
	if c.Project != "" {
		real, err := realFolder(c.Project, suspect)
		if err != nil {
			return f, err
		}
		f.project = real
		roots := []string{real}
		if c.Mode == Overlay {
			var notice string
			if roots, notice = host.ProjectRoots(real); notice != "" {
				f.notices = append(f.notices, notice)
			}
		}
		for _, root := range roots {
			if err := add(c.Project, root, c.Mode); err != nil {
				return f, err
			}
		}
	}
	for _, folder := range c.Shared {
		real, err := realFolder(folder.Path, suspect)
		if err != nil {
			return f, err
		}
		if err := add(folder.Path, real, folder.Mode); err != nil {
			return f, err
		}
	}
	if c.Session != "" && len(f.overlay) > 0 {
		return f, &Error{opUse, f.overlay[0], errors.New("a session that is gone on with has roots of its own")}
	}
	if c.Session != "" && (c.After == Discard || c.Preset == TestPreset && c.After != Hold) {
		return f, &Error{opUse, c.Session, errors.New("discarding would throw away what the session held before")}
	}
	for _, root := range f.overlay {
		for _, other := range f.direct {
			if links.Inside(root, other) {
				return f, &Error{opUse, root, errors.New("it lies in " + other + ", which commands write to directly")}
			}
		}
	}
	return f, nil
}

// layered reports whether commands have a session.
func (c *Config) layered() bool {
	return c.Session != "" || c.On != "" || c.Project != "" && c.Mode == Overlay ||
		slices.ContainsFunc(c.Shared, func(f Folder) bool { return f.Mode == Overlay })
}

// realFolder is where a folder is, which must be said without regard to where this program
// is.
func realFolder(path string, suspect func(dir string) bool) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &Error{opUse, path, host.ErrNotAbsolute}
	}
	real, err := links.Resolve(path, suspect)
	if err != nil {
		return "", &Error{opUse, path, err}
	}
	return real, nil
}
