package pathrule

import (
	"path"
	"slices"
)

// An Access is what a rule does. The zero Access is a mistake.
type Access uint8

const (
	NoAccess Access = iota
	Write           // it is written to in place
	Show            // it is seen, read-only
	Block           // it is hidden
	Protect         // changes of it are held back, and where it would be written to in place it is read-only
)

// A Rule is about what its Pattern means, and all below that.
type Rule struct {
	Access  Access
	Pattern Pattern
}

// Verdict is what rules say about a path: the last one that means it, or a directory that it lies in. NoAccess: none
// says anything. Those that protect say nothing about what can be seen and written to.
func Verdict(rules []Rule, name string) (said Access) {
	for i := range rules {
		if r := &rules[i]; r.Access != Protect && !r.Pattern.Except && r.covers(name, rules[i+1:]) {
			said = r.Access
		}
	}
	return said
}

// covers reports whether a rule means a path, or a directory that it lies in, and no later exception takes that out.
func (r *Rule) covers(name string, after []Rule) bool {
	for {
		if r.Pattern.Match(name) && !(r.Access == Block && Excepted(after, name)) {
			return true
		}
		if name == "/" {
			return false
		}
		name = path.Dir(name)
	}
}

// Excepted reports whether one of some rules, those after one that hides, takes a path out of that.
func Excepted(after []Rule, name string) bool {
	return slices.ContainsFunc(after, func(r Rule) bool { return r.Pattern.Except && r.Pattern.Covers(name) })
}

// Useless reports whether an exception is about what lies in a directory that a rule before it hides as a whole.
func Useless(before []Rule, except *Pattern) bool {
	dir, literal := except.Base()
	return literal && dir != "/" && slices.ContainsFunc(before, func(r Rule) bool {
		return r.Access == Block && !r.Pattern.Except && !r.Pattern.Match(dir) && r.Pattern.Covers(path.Dir(dir))
	})
}
