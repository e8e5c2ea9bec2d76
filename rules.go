//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/escape"
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
			dirs = append(dirs, dir, filepath.Join(filepath.Dir(dir), projectPlaygrounds))
		}
		if c.Playground != "" && !c.NoPlayground {
			dirs = append(dirs, c.Playground)
		}
		if home := homeDir(); home != "" && c.Preset == BuildPreset {
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
			return fail(errNotAbsolute)
		}
		path, err := links.Resolve(real[i].Pattern, suspect)
		if err != nil {
			return fail(err)
		}
		for _, dir := range [...]string{"/proc", "/sys", "/dev"} {
			if path == "/" || inside(path, dir) {
				return fail(errNotFiles)
			}
		}
		if given := filepath.Clean(real[i].Pattern); path != given && real[i].Mode != Blocked && !isHidden(given, nil, false) && isHidden(path, nil, true) {
			return fail(errHidden)
		}
		real[i].Pattern = path
	}
	return real, nil
}

// ruleMounts are the rules in their order. Exact ones are no patterns, and lead nowhere
// else. What is hidden stays so below a directory that a rule shows, and where a pattern
// or a link leads to it. So does what git uses, unless git says otherwise or a rule names it.
func ruleMounts(rules []Rule, exact bool, hidden mounts.Plan, suspect func(dir string) bool, git bool) (all inPlace, err error) {
	var p mounts.Plan
	all.known = make(map[string]bool)
	for i, rule := range rules {
		fail := func(err error) (inPlace, error) { return inPlace{}, &RuleError{rule, i, bare(err)} }
		if rule.Mode != Direct && rule.Mode != ReadOnly && rule.Mode != Blocked {
			return fail(errRuleMode)
		}
		if !filepath.IsAbs(rule.Pattern) {
			return fail(errNotAbsolute)
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
		d := newDirect()
		d.rule = true
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
			named := filepath.Clean(path) == pattern && isHidden(pattern, hidden, false)
			if real != pattern && !named && isHidden(real, hidden, true) {
				if filepath.Clean(path) != real {
					return fail(errHidden)
				}
				continue // one of many that a pattern means
			}
			m, err := bindReal(real, rule.Mode == Direct)
			if err != nil {
				return fail(err)
			}
			p = append(p, m)
			for _, m := range hidden {
				if at, err := filepath.EvalSymlinks(m.Target); err == nil && at != real && inside(at, real) {
					p = append(p, mounts.Block(at))
				}
			}
			switch {
			case rule.Mode != Direct:
			case !isDir(real):
				all.files = append(all.files, real)
			case filepath.Clean(path) == pattern && ofGit(real):
				all.dirs = append(all.dirs, real) // and no part of it is kept
			default:
				all.dirs = append(all.dirs, real)
				d.roots, d.at[real] = append(d.roots, real), true
			}
		}
		for _, root := range d.roots {
			if git {
				break
			}
			if err := d.tree(root); err != nil {
				return fail(err)
			}
		}
		in, err := d.mounts(false)
		if err != nil {
			return fail(err)
		}
		p, all.later, all.notices = append(p, in.plan...), append(all.later, in.later...), append(all.notices, in.notices...)
		maps.Copy(all.known, in.known)
	}
	all.plan = p
	return all, nil
}

// ofGit reports whether a directory is one of git's, or where that has those of submodules or work trees.
func ofGit(dir string) bool {
	switch filepath.Base(dir) {
	case "modules", "worktrees":
		return isGitDir(dir) || isGitDir(filepath.Dir(dir))
	}
	return isGitDir(dir)
}

// isHidden reports whether a path is, or lies in, something that is hidden unless a rule
// names it; with links also where the names of that lead.
func isHidden(path string, more mounts.Plan, links bool) bool {
	var names []string
	for _, home := range append(Homes(), "") {
		names = append(names, HiddenPaths(home)...)
	}
	for _, m := range more {
		names = append(names, m.Target)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		if inside(path, name) || !links {
			return inside(path, name)
		}
		at, err := filepath.EvalSymlinks(name)
		return err == nil && inside(path, at)
	})
}

// throughLinks is a plan that blocks what paths lead to that have symbolic links in them,
// and these paths: what is hidden there stays so, whatever becomes of a link.
func throughLinks(p mounts.Plan) (real mounts.Plan, linked []string) {
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
		return slices.ContainsFunc(roots, func(root string) bool { return inside(dir, root) }) ||
			slices.ContainsFunc(plan, func(m mounts.Mount) bool { return m.Kind == mounts.KindBind && !m.ReadOnly && inside(dir, m.Target) })
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
		return r.Mode == Blocked && err == nil && inside(real, at)
	})
}
