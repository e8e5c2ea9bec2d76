//go:build linux

package nsrun

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/mounts"
)

var errNoPath = errors.New("no such path")

// realRules are the rules of a request with the paths that somebody can be asked about:
// what a link leads to, not the link, which commands may change.
func realRules(rules []Rule) ([]Rule, error) {
	real := slices.Clone(rules)
	for i := range real {
		if !filepath.IsAbs(real[i].Pattern) {
			return nil, &RuleError{rules[i], i, errNotAbsolute}
		}
		path, err := realPath(real[i].Pattern)
		if err != nil {
			return nil, &RuleError{rules[i], i, err}
		}
		for _, dir := range [...]string{"/proc", "/sys", "/dev"} {
			if path == "/" || inside(path, dir) {
				return nil, &RuleError{rules[i], i, errNotFiles}
			}
		}
		real[i].Pattern = path
	}
	return real, nil
}

// errNotFiles is about paths that only a Config can open: a yes to one of them would be a
// yes to much more than it seems.
var errNotFiles = errors.New("a request cannot ask for the whole file system, or for what is the kernel's")

// ruleMounts are the rules in their order. Exact ones are no patterns, and lead nowhere
// else. What is hidden stays so below a directory that a rule shows.
func ruleMounts(rules []Rule, exact bool, hidden mounts.Plan) (p mounts.Plan, err error) {
	for i, rule := range rules {
		fail := func(err error) (mounts.Plan, error) { return nil, &RuleError{rule, i, err} }
		if rule.Mode != Direct && rule.Mode != ReadOnly && rule.Mode != Blocked {
			return fail(errors.New("there are rules for direct, read-only and blocked paths only"))
		}
		if !filepath.IsAbs(rule.Pattern) {
			return fail(errNotAbsolute)
		}
		paths, err := []string{rule.Pattern}, error(nil)
		if !exact {
			paths, err = filepath.Glob(rule.Pattern)
		}
		if err != nil {
			return fail(err)
		}
		if len(paths) == 0 {
			return fail(errNoPath)
		}
		for _, path := range paths {
			if rule.Mode == Blocked {
				p = append(p, mounts.Block(path))
				continue
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				var pe *fs.PathError
				if errors.As(err, &pe) {
					err = pe.Err
				}
				return fail(err)
			}
			if exact && real != path {
				return fail(errors.New("it leads elsewhere now"))
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
		}
	}
	return p, nil
}
