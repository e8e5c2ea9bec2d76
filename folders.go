//go:build linux

package nsrun

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
)

// folders resolves the folders, see links.Resolve, and sorts them.
func (c *Config) folders(suspect func(dir string) bool) (f plan.Folders, err error) {
	add := func(given, real string, mode Mode) error {
		switch mode {
		case Overlay:
			f.Overlay = append(f.Overlay, real)
		case Direct:
			f.Direct = append(f.Direct, real)
		case ReadOnly:
			f.ReadOnly = append(f.ReadOnly, real)
		case Blocked:
			f.Blocked = append(f.Blocked, real)
		default:
			return &Error{plan.OpUse, given, errors.New("unknown mode")}
		}
		return nil
	}
	var outer []Folder // git directories that are not in their folder
	take := func(given, real string, mode Mode) error {
		switch mode {
		case Overlay:
			roots, noGit := host.ProjectRoots(real)
			if real == f.Project {
				f.NoGit = noGit
			}
			real, outer = roots[0], appendFolders(outer, roots[1:], Overlay)
		case Direct:
			roots, _ := host.ProjectRoots(real)
			roots = slices.DeleteFunc(roots, func(root string) bool { return root == real })
			outer = appendFolders(outer, roots, c.gitMode())
		}
		return add(given, real, mode)
	}
	if c.Project != "" {
		if f.Project, err = host.Folder(c.Project, suspect); err != nil {
			return f, err
		}
		if err := take(c.Project, f.Project, c.Mode); err != nil {
			return f, err
		}
	}
	for _, folder := range c.Shared {
		real, err := host.Folder(folder.Path, suspect)
		if err != nil {
			return f, err
		}
		if err := take(folder.Path, real, folder.Mode); err != nil {
			return f, err
		}
	}
	for _, dir := range outer {
		if given := slices.Concat(f.Overlay, f.Direct, f.ReadOnly, f.Blocked); paths.InAny(dir.Path, given) {
			continue // what is given for a directory around it holds for it, too
		}
		if err := add(dir.Path, dir.Path, dir.Mode); err != nil {
			return f, err
		}
	}
	f.BelowGit = slices.ContainsFunc(f.Overlay, host.BelowGit) || slices.ContainsFunc(f.Direct, host.BelowGit)
	return f, f.Check(c.Session, c.after() == Discard)
}

// gitMode is that of a git directory outside a folder to which commands write directly. As with one in the folder,
// commands write to it only with GitPreset. What they would write to the home layer instead is lost for the caller's
// git.
func (c *Config) gitMode() Mode {
	if c.has(GitPreset) {
		return Direct
	}
	return ReadOnly
}

func appendFolders(list []Folder, dirs []string, mode Mode) []Folder {
	for _, dir := range dirs {
		list = append(list, Folder{Path: dir, Mode: mode})
	}
	return list
}

// layered reports whether commands have a session.
func (c *Config) layered() bool {
	return c.Session != "" || c.On != "" || c.Project != "" && c.Mode == Overlay ||
		slices.ContainsFunc(c.Shared, func(f Folder) bool { return f.Mode == Overlay })
}

// suspect reports the directories in which commands can have created links, with this Config and these rules, or with
// others that were used before.
func (c *Config) suspect(more []Rule) func(dir string) bool {
	w := host.Written{StateDir: c.StateDir, Builds: c.has(BuildPreset), Caches: c.caches()}
	if c.Mode != ReadOnly && c.Mode != Blocked && c.Project != "" {
		w.Dirs = append(w.Dirs, c.Project)
	}
	for _, folder := range c.Shared {
		if folder.Mode == Overlay || folder.Mode == Direct {
			w.Dirs = append(w.Dirs, folder.Path)
		}
	}
	if c.Playground != "" && !c.NoPlayground {
		w.Dirs = append(w.Dirs, c.Playground)
	}
	for _, rule := range slices.Concat(c.Rules, more) {
		if rule.Mode == Direct {
			w.Patterns = append(w.Patterns, rule.Pattern)
		}
	}
	return w.Suspect()
}

// caches are the names of Caches below the home directory. Mistakes in them were reported before.
func (c *Config) caches() []string {
	if len(c.Caches) == 0 {
		return nil
	}
	names, _ := host.CachePaths(host.Home(), c.Caches)
	return names
}

// inPlace reports whether commands write to folders, or to paths of rules, without an overlay.
func (c *Config) inPlace(more []Rule) bool {
	return c.Project != "" && c.Mode == Direct || slices.ContainsFunc(c.Shared, func(f Folder) bool { return f.Mode == Direct }) ||
		slices.ContainsFunc(slices.Concat(c.Rules, more), func(r Rule) bool { return r.Mode == Direct })
}

// protected are the patterns of what a session holds back. Mistakes in them are reported with those of all rules.
func (c *Config) protected(home string) (list []string) {
	rules := slices.DeleteFunc(slices.Clone(c.Rules), func(r Rule) bool { return r.Mode != Protected })
	if len(rules) == 0 {
		return nil
	}
	for _, m := range host.Match(hostRules(rules, false), home, false, c.suspect(nil)) {
		if m.Err == nil {
			list = append(list, m.Pattern.String())
		}
	}
	return list
}

func hostRules(rules []Rule, inPlace bool) []host.Rule {
	list := make([]host.Rule, len(rules))
	for i, r := range rules {
		list[i] = host.Rule{Access: access(r.Mode), Pattern: r.Pattern, Idle: r.Mode == Protected && !inPlace}
	}
	return list
}

// access is what a rule with a mode does. An invalid mode is an error there.
func access(m Mode) plan.Access {
	switch m {
	case Direct:
		return plan.Write
	case ReadOnly:
		return plan.Show
	case Blocked:
		return plan.Block
	case Protected:
		return plan.Protect
	}
	return pathrule.NoAccess
}

// realRules are the rules of a request, with the paths that the user can be asked about.
func (c *Config) realRules(rules []Rule) ([]Rule, error) {
	real, err := host.Asked(hostRules(rules, true), c.suspect(rules))
	list := slices.Clone(rules)
	for i := range real {
		list[i].Pattern = real[i].Pattern
	}
	return list, err
}
