//go:build linux

package host

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/plan"
)

// A Copy is a copy of a directory, which commands see in the directory's place.
type Copy struct{ Path, At string }

// InCopies adds to rules that hide paths what they match in copies: a copy is made after the rules were matched, and
// may contain names that did not exist then.
func InCopies(list []plan.Rule, copies []Copy) error {
	all := make([]pathrule.Rule, len(list))
	for i, r := range list {
		all[i] = pathrule.Rule{Access: r.Access, Pattern: r.Pattern}
	}
	for i := range list {
		r := &list[i]
		if r.Access != pathrule.Block || r.Pattern.Except {
			continue
		}
		for _, c := range copies {
			found, err := inCopy(&r.Pattern, c, func(path string) bool { return pathrule.Excepted(all[i+1:], path) })
			if err != nil {
				return err
			}
			for _, path := range found {
				if !slices.ContainsFunc(r.Found, func(f plan.Found) bool { return f.At == path }) {
					r.Found = append(r.Found, plan.Found{At: path})
				}
			}
		}
	}
	return nil
}

// inCopy is Glob in a copy; it returns paths of the original.
func inCopy(p *pathrule.Pattern, c Copy, skip func(path string) bool) (list []string, err error) {
	base, literal := p.Base()
	copied := func(path string) string { return c.At + strings.TrimPrefix(path, c.Path) }
	original := func(path string) string { return c.Path + strings.TrimPrefix(path, c.At) }
	dir := globDir{copied(base), p.Start()}
	switch {
	case !paths.Inside(base, c.Path) && (literal || !paths.Inside(c.Path, base)):
		return nil, nil
	case literal && Exists(filepath.Clean(dir.path)) && !skip(base):
		return []string{base}, nil
	case literal:
		return nil, nil
	case !paths.Inside(base, c.Path):
		dir.path = c.At
		dir.state, _ = p.At(c.Path)
	}
	found, err := globFrom(dir, p, func(path string) bool { return skip(original(path)) })
	for _, path := range found {
		list = append(list, original(path))
	}
	return list, err
}
