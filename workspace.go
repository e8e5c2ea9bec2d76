//go:build linux

package nsrun

import (
	"path/filepath"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

// workspace adds what is needed to make the project the root.
func (x *Execution) workspace(f *plan.Facts) error {
	lists := []mounts.Plan{f.System, f.Shown, f.Builds, f.Unix, f.InPlace}
	for _, rules := range [...][]plan.Rule{f.Rules, f.Paths} {
		for _, r := range rules {
			for _, found := range r.Found {
				lists = append(lists, mounts.Plan{found.Bind})
			}
		}
	}
	f.NoDirs = host.NoDirs(lists...)
	project := f.Folders.Project
	switch {
	case len(f.Folders.Direct) == 0 || project == "" || project != f.Folders.Direct[0]:
		return nil
	case x.explain:
		f.Work = "/WORK"
		return nil
	case x.work == nil:
		state, err := host.StateDir(x.runner.config.StateDir)
		if err != nil {
			return err
		}
		if x.work, err = host.NewWorkDir(project, filepath.Join(filepath.Dir(state), "work")); err != nil {
			return err
		}
	}
	f.Work = x.work.Path
	return nil
}

// SandboxPath is where a path of the host is for commands: with WorkspaceRootPreset "/a" for the file a of the project.
// It is an error if commands do not have the path. Only the project itself is looked up, not whether the path exists or
// where links lead.
func (c *Config) SandboxPath(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", &Error{"map", name, plan.ErrNotAbsolute}
	}
	name = filepath.Clean(name)
	if !c.has(WorkspaceRootPreset) {
		if plan.Private(name + "/") {
			return "", &Error{"map", name, plan.ErrPrivate}
		}
		return name, nil
	}
	root, err := c.workspace()
	if err != nil {
		return "", err
	}
	if given := filepath.Clean(c.Project); given != root && (name == given || len(name) > len(given) && name[:len(given)+1] == given+"/") {
		name = root + name[len(given):]
	}
	at, err := plan.ToSandbox(root, name, c.shownPaths())
	return at, public(err, nil, nil)
}

// HostPath is where a path of the sandbox is on the host: with WorkspaceRootPreset the project's file a for "/a", and
// for "a". It is an error if the path is on no file system of the host. See SandboxPath. If you open files that
// commands wrote, expect symbolic links (use os.Root).
func (c *Config) HostPath(name string) (string, error) {
	if !c.has(WorkspaceRootPreset) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.Project, name)
		}
		return c.SandboxPath(name)
	}
	root, err := c.workspace()
	if err != nil {
		return "", err
	}
	at, err := plan.ToHost(root, name, c.shownPaths())
	return at, public(err, nil, nil)
}

// workspace resolves the links of the project's path.
func (c *Config) workspace() (string, error) {
	real, err := host.Folder(c.Project, c.suspect(nil))
	return real, public(err, nil, nil)
}

// shownPaths are the paths that Config names besides the project, except patterns.
func (c *Config) shownPaths() (list []string) {
	for _, f := range c.Shared {
		if f.Mode != Blocked {
			list = append(list, filepath.Clean(f.Path))
		}
	}
	for _, r := range c.Rules {
		if r.Mode == ReadOnly || r.Mode == Direct {
			list = append(list, filepath.Clean(r.Pattern))
		}
	}
	return list
}
