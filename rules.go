//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/mounts"
)

var (
	errNoPath   = errors.New("no such path")
	errRuleMode = errors.New("there are rules for direct, read-only and blocked paths only")
	errElse     = errors.New("it leads elsewhere now")

	// errNotFiles is about paths that only a Config can open: a yes to one of them would be a
	// yes to much more than it seems.
	errNotFiles = errors.New("a request cannot ask for the whole file system, or for what is the kernel's")

	// errHidden is about rules that would show what is hidden, and do not say so.
	errHidden = errors.New("it is a symbolic link to what is hidden: a rule for that has to name it")
)

// suspect tells the directories in which commands can have made links, with this Config
// and these rules or with others that were used before.
func (c *Config) suspect(more []Rule) func(dir string) bool {
	w := links.Written{StateDir: c.StateDir, Dirs: func() (dirs []string) {
		if c.Mode != ReadOnly && c.Mode != Blocked && c.Project != "" {
			dirs = append(dirs, c.Project)
		}
		for _, folder := range c.Shared {
			if folder.Mode == Overlay || folder.Mode == Direct {
				dirs = append(dirs, folder.Path)
			}
		}
		for _, rule := range slices.Concat(c.Rules, more) {
			if rule.Mode == Direct {
				found, _ := filepath.Glob(rule.Pattern)
				dirs = append(append(dirs, rule.Pattern), found...)
			}
		}
		// Also what other projects' commands wrote to theirs.
		if dir, err := DefaultPlayground(); err == nil {
			dirs = append(dirs, dir, filepath.Join(filepath.Dir(dir), host.ProjectPlaygrounds))
		}
		if c.Playground != "" && !c.NoPlayground {
			dirs = append(dirs, c.Playground)
		}
		if home := host.Home(); home != "" && c.Preset == BuildPreset {
			for _, dir := range buildCaches {
				dirs = append(dirs, filepath.Join(home, dir))
			}
		}
		return dirs
	}}
	return w.Suspect
}

// realRules are the rules of a request with the paths that somebody can be asked about.
func (c *Config) realRules(rules []Rule) ([]Rule, error) {
	real := slices.Clone(rules)
	suspect := c.suspect(rules)
	for i := range real {
		fail := func(err error) ([]Rule, error) { return nil, &RuleError{rules[i], i, err} }
		if !filepath.IsAbs(real[i].Pattern) {
			return fail(host.ErrNotAbsolute)
		}
		path, err := links.Resolve(real[i].Pattern, suspect)
		if err != nil {
			return fail(err)
		}
		for _, dir := range [...]string{"/proc", "/sys", "/dev"} {
			if path == "/" || links.Inside(path, dir) {
				return fail(errNotFiles)
			}
		}
		if given := filepath.Clean(real[i].Pattern); path != given && real[i].Mode != Blocked && !host.IsHidden(given, nil, false) && host.IsHidden(path, nil, true) {
			return fail(errHidden)
		}
		real[i].Pattern = path
	}
	return real, nil
}

// ruleMounts are the rules in their order. Exact ones are no patterns, and lead nowhere
// else. What is hidden stays so below a directory that a rule shows, and where a pattern
// or a link leads to it. So does what git uses, unless git says otherwise or a rule names it.
func ruleMounts(rules []Rule, exact bool, hidden mounts.Plan, suspect func(dir string) bool, git bool) (all host.InPlace, err error) {
	var p mounts.Plan
	all.Known = make(map[string]bool)
	for i, rule := range rules {
		fail := func(err error) (host.InPlace, error) { return host.InPlace{}, &RuleError{rule, i, host.Bare(err)} }
		if rule.Mode != Direct && rule.Mode != ReadOnly && rule.Mode != Blocked {
			return fail(errRuleMode)
		}
		if !filepath.IsAbs(rule.Pattern) {
			return fail(host.ErrNotAbsolute)
		}
		pattern, paths := filepath.Clean(rule.Pattern), []string{rule.Pattern}
		if !exact {
			if paths, err = filepath.Glob(rule.Pattern); err != nil {
				return fail(err)
			}
		}
		if len(paths) == 0 {
			return fail(errNoPath)
		}
		var roots []string // that git may use
		for _, path := range paths {
			real, err := links.Resolve(path, suspect)
			if err != nil {
				return fail(err)
			}
			if exact && real != path {
				return fail(errElse)
			}
			if rule.Mode == Blocked {
				m := mounts.Block(real)
				m.Optional = false // it was there, and may have been moved
				p = append(p, m)
				continue
			}
			named := filepath.Clean(path) == pattern && host.IsHidden(pattern, hidden, false)
			if real != pattern && !named && host.IsHidden(real, hidden, true) {
				if filepath.Clean(path) != real {
					return fail(errHidden)
				}
				continue // one of many that a pattern means
			}
			m, err := host.Bind(real, rule.Mode == Direct)
			if err != nil {
				return fail(err)
			}
			p = append(p, m)
			for _, m := range hidden {
				if at, err := filepath.EvalSymlinks(m.Target); err == nil && at != real && links.Inside(at, real) {
					p = append(p, mounts.Block(at))
				}
			}
			switch {
			case rule.Mode != Direct:
			case !host.IsDir(real):
				all.Files = append(all.Files, real)
			case filepath.Clean(path) == pattern && ofGit(real):
				all.Dirs = append(all.Dirs, real) // and no part of it is kept
			default:
				all.Dirs = append(all.Dirs, real)
				roots = append(roots, real)
			}
		}
		if git {
			roots = nil
		}
		in, err := host.ProtectGit(roots)
		if err != nil {
			return fail(err)
		}
		p, all.Later, all.Notices = append(p, in.Plan...), append(all.Later, in.Later...), append(all.Notices, in.Notices...)
		maps.Copy(all.Known, in.Known)
	}
	all.Plan = p
	return all, nil
}

// ofGit reports whether a directory is one of git's, or where that has those of submodules or work trees.
func ofGit(dir string) bool {
	switch filepath.Base(dir) {
	case "modules", "worktrees":
		return host.IsGitDir(dir) || host.IsGitDir(filepath.Dir(dir))
	}
	return host.IsGitDir(dir)
}

// staysHidden refuses to go on where what is hidden would be shown next time, because a
// command can remove the link that leads to it.
func (x *Execution) staysHidden(linked []string, plan mounts.Plan, roots []string) error {
	if len(linked) == 0 {
		return nil
	}
	if x.session != nil {
		for _, root := range x.session.Roots() {
			roots = append(roots, root.Path)
		}
	}
	written := func(dir string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return links.Inside(dir, root) }) ||
			slices.ContainsFunc(plan, func(m mounts.Mount) bool {
				return m.Kind == mounts.KindBind && !m.ReadOnly && links.Inside(dir, m.Target)
			})
	}
	for _, name := range linked {
		_, err := links.Resolve(name, written)
		link, ok := errors.AsType[*links.Error](err)
		if !ok || x.blocks(link.To) {
			continue
		}
		return &Error{"hide", name, fmt.Errorf("%s is a symbolic link in a directory that commands write to (try: --block %s)", escape.Quote(link.Link), escape.Quote(link.To))}
	}
	return nil
}

// blocks reports whether a rule hides a path without links.
func (x *Execution) blocks(real string) bool {
	return slices.ContainsFunc(slices.Concat(x.runner.config.Rules, x.request.Paths), func(r Rule) bool {
		at, err := filepath.EvalSymlinks(r.Pattern)
		return r.Mode == Blocked && err == nil && links.Inside(real, at)
	})
}
