//go:build linux

package host

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/links"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
)

// A Rule is one of a Config or a Request, as it is written there.
type Rule struct {
	Access  plan.Access
	Pattern string // an absolute path; in a Config it may be a pattern of such paths
}

var (
	errNoPath     = errors.New("no such path")
	errRuleAccess = errors.New("there are rules for direct, read-only and blocked paths only")

	// ErrElse says that what was named is another file by now.
	ErrElse = errors.New("it leads elsewhere now")

	// errNotFiles is about paths that only a Config can open: a yes to one of them would be a
	// yes to much more than it seems.
	errNotFiles = errors.New("a request cannot ask for the whole file system, or for what is the kernel's")
)

// Asked are the rules of a request with the paths that somebody can be asked about.
func Asked(rules []Rule, suspect func(dir string) bool) ([]Rule, error) {
	real := slices.Clone(rules)
	for i := range real {
		fail := func(err error) ([]Rule, error) { return nil, &plan.RuleError{Asked: true, Index: i, Err: err} }
		if !filepath.IsAbs(real[i].Pattern) {
			return fail(plan.ErrNotAbsolute)
		}
		path, err := links.Resolve(real[i].Pattern, suspect)
		if err != nil {
			return fail(err)
		}
		if path == "/" || paths.InAny(path, []string{"/proc", "/sys", "/dev"}) {
			return fail(errNotFiles)
		}
		if given := filepath.Clean(real[i].Pattern); path != given && real[i].Access != plan.Block && !isHidden(given, nil, false) && isHidden(path, nil, true) {
			return fail(plan.ErrHidden)
		}
		real[i].Pattern = path
	}
	return real, nil
}

// RuleQuery is what Rules needs to know.
type RuleQuery struct {
	Asked   bool                  // they are a Request's: no patterns, and free of links
	Hidden  []string              // paths that are hidden
	Suspect func(dir string) bool // see links.Resolve
	Git     bool                  // what git executes can be written to
}

// Rules finds what rules are about. What git executes in a directory that one makes writable is found too, and is
// read-only, unless the rule names it.
func Rules(rules []Rule, q RuleQuery) (list []plan.Rule, in InPlace, err error) {
	in.Known = make(map[string]bool)
	for i, rule := range rules {
		found, err := q.find(rule, &in)
		if err != nil {
			return nil, InPlace{}, &plan.RuleError{Asked: q.Asked, Index: i, Err: Bare(err)}
		}
		list = append(list, found)
	}
	return list, in, nil
}

func (q *RuleQuery) find(rule Rule, all *InPlace) (r plan.Rule, err error) {
	r.Access = rule.Access
	if r.Access == plan.NoAccess || r.Access > plan.Block {
		return r, errRuleAccess
	}
	if !filepath.IsAbs(rule.Pattern) {
		return r, plan.ErrNotAbsolute
	}
	pattern, matches := filepath.Clean(rule.Pattern), []string{rule.Pattern}
	if !q.Asked {
		if matches, err = filepath.Glob(rule.Pattern); err != nil {
			return r, err
		}
	}
	if len(matches) == 0 {
		return r, errNoPath
	}
	var guarded []string // directories in which git does not execute what commands write
	for _, path := range matches {
		found, err := q.one(r.Access, path, pattern)
		if err != nil {
			return r, err
		}
		r.Found = append(r.Found, found)
		switch {
		case r.Access != plan.Write || found.Hidden:
		case !IsDir(found.At):
			all.Files = append(all.Files, found.At)
		case filepath.Clean(path) == pattern && ofGit(found.At):
			all.Dirs = append(all.Dirs, found.At) // and no part of it is kept
		default:
			all.Dirs, guarded = append(all.Dirs, found.At), append(guarded, found.At)
		}
	}
	if q.Git {
		return r, nil
	}
	in, err := protectGit(guarded)
	if err != nil {
		return r, err
	}
	r.Git, r.Unguarded = in.Plan, in.Unguarded
	all.add(&in)
	return r, nil
}

// one finds what a rule is about at one of the paths that its pattern matches.
func (q *RuleQuery) one(access plan.Access, path, pattern string) (found plan.Found, err error) {
	if found.At, err = links.Resolve(path, q.Suspect); err != nil {
		return found, err
	}
	if q.Asked && found.At != path {
		return found, ErrElse
	}
	if access == plan.Block {
		return found, nil
	}
	named := filepath.Clean(path) == pattern && isHidden(pattern, q.Hidden, false)
	found.Linked = filepath.Clean(path) != found.At
	if found.Hidden = found.At != pattern && !named && isHidden(found.At, q.Hidden, true); !found.Hidden {
		found.Bind, err = Bind(found.At, access == plan.Write)
	}
	return found, err
}

// ofGit reports whether a directory is one of git's, or where that has those of submodules or work trees.
func ofGit(dir string) bool {
	switch filepath.Base(dir) {
	case "modules", "worktrees":
		return isGitDir(dir) || isGitDir(filepath.Dir(dir))
	}
	return isGitDir(dir)
}
