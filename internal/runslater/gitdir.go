package runslater

import (
	"path"
	"slices"
	"strings"
)

// The reasons of git's.
const (
	reasonHook   = "git hook"
	reasonLink   = "git follows this link"
	reasonConfig = "git configuration: "
	reasonGitDir = "makes a git directory of its place"
	reasonElse   = "leads git elsewhere"
	reasonTodo   = "executed when the rebase goes on"
)

// isGit is what a directory is in the two views.
type isGit struct{ old, now bool }

// gitReason is for what is in a git directory: by name below .git, by what is in it
// elsewhere.
func (c *Classifier) gitReason(ch Change, elems []string) string {
	real := strings.Split(ch.Path[1:], "/")
	upTo := func(i int) string { return "/" + strings.Join(real[:i], "/") }
	base := elems[len(elems)-1]
	if base == ".git" {
		return c.gitFile(ch)
	}
	if strings.HasPrefix(base, ".gitconfig") || len(elems) > 2 && slices.Equal(elems[len(elems)-3:len(elems)-1], []string{".config", "git"}) && base != "ignore" && base != "attributes" {
		return c.config(ch)
	}
	named, data := -1, false // the last .git above, and whether what is in it here is data
	for i, e := range elems[:len(elems)-1] {
		switch {
		case e == ".git":
			named, data = i, false
		case named >= 0 && (e == "objects" || e == "refs" || e == "logs"):
			data = true
		}
	}
	if named >= 0 && ch.Kind != File {
		if base == "head" && strings.HasPrefix(c.New.Target(ch.Path), "refs/") {
			return ""
		}
		return reasonLink
	}
	for i, e := range elems {
		last := i == len(elems)-1
		var what func(Change) string
		switch {
		case e == "hooks" && !last:
			what = c.hook
		case !last:
			continue
		case e == "config" || e == "config.worktree":
			what = c.config
		case e == "commondir":
			what = c.commonDir
		case e == "hooks" && ch.Kind != File:
			what = func(Change) string { return reasonLink }
		case e == "head" || e == "objects" || e == "refs":
			what = c.becomes
		case e == "git-rebase-todo" && named >= 0:
			what = c.todo
		default:
			continue
		}
		in := named >= 0 && named < i && !data
		if in && (e == "head" || e == "objects" || e == "refs") {
			continue
		}
		if !in && !c.isGit(upTo(i)).now {
			continue
		}
		if reason := what(ch); reason != "" {
			return reason
		}
	}
	// A directory of objects or refs that is new has no change of its own here: the first
	// file in it tells.
	for i, e := range elems[:len(elems)-1] {
		if (e == "objects" || e == "refs") && !(named >= 0 && named < i && !data) {
			if reason := c.becomesAt(upTo(i)); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// isGit reports whether a directory is one of git's, by what git itself looks for.
func (c *Classifier) isGit(dir string) isGit {
	if g, ok := c.git[dir]; ok {
		return g
	}
	if c.git == nil {
		c.git = map[string]isGit{}
	}
	g := isGit{looksGit(c.Old, dir), looksGit(c.New, dir)}
	c.git[dir] = g
	return g
}

func looksGit(v View, dir string) bool {
	is := func(name string) bool { return v.Kind(path.Join(dir, name)) != Missing }
	return is("HEAD") && (is("commondir") || is("objects") && is("refs"))
}

// hook is for what is in a directory of hooks. Git makes samples, and executes none.
func (c *Classifier) hook(ch Change) string {
	if ch.Kind == File && strings.HasSuffix(ch.Path, ".sample") {
		return ""
	}
	return reasonHook
}

func (c *Classifier) config(ch Change) string {
	if ch.Kind != File {
		return reasonLink
	}
	if !ch.Content {
		return ""
	}
	now, ok := c.New.Read(ch.Path)
	if !ok {
		return reasonConfig + "cannot be read"
	}
	old, _ := c.Old.Read(ch.Path)
	if key := addedKeys(ch.Path, old, now, c.Roots); key != "" {
		return reasonConfig + key
	}
	return ""
}

// becomes is for what makes a directory one of git's: what was in it before runs then.
func (c *Classifier) becomes(ch Change) string { return c.becomesAt(path.Dir(ch.Path)) }

func (c *Classifier) becomesAt(dir string) string {
	if g := c.isGit(dir); g.old || !g.now {
		return ""
	}
	if c.executesIn(c.Old, dir) {
		return reasonGitDir
	}
	return ""
}

// executesIn reports whether git executes anything because of a git directory.
func (c *Classifier) executesIn(v View, dir string) bool {
	for _, name := range [...]string{"config", "config.worktree"} {
		at := path.Join(dir, name)
		switch v.Kind(at) {
		case Missing:
			continue
		case File:
			if text, ok := v.Read(at); ok && addedKeys(at, "", text, c.Roots) == "" {
				continue
			}
		}
		return true
	}
	hooks := path.Join(dir, "hooks")
	if k := v.Kind(hooks); k == Missing || k == File {
		return false
	} else if k != Directory {
		return true
	}
	return slices.ContainsFunc(v.Names(hooks), func(name string) bool { return !strings.HasSuffix(name, ".sample") })
}

// gitFile is for a .git that is no directory: of a linked work tree or a submodule.
func (c *Classifier) gitFile(ch Change) string {
	if ch.Kind != File {
		return reasonLink
	}
	if !ch.Content {
		return ""
	}
	text, _ := c.New.Read(ch.Path)
	name, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	dir := absolute(path.Dir(ch.Path), name)
	if !ok || dir == "" || !slices.ContainsFunc(c.Roots, func(root string) bool { return inside(dir, root) }) {
		return reasonElse
	}
	if resolve(c.New, dir, func(string) {}) != dir {
		return reasonElse
	}
	// What git has in its own directories for that is as good as they are.
	for _, sub := range [...]string{"/worktrees/", "/modules/"} {
		if i := strings.Index(dir, sub); i > 0 && (path.Base(dir[:i]) == ".git" || c.isGit(dir[:i]).old) {
			return ""
		}
	}
	if c.executesIn(c.New, dir) {
		return reasonElse
	}
	return ""
}

// commonDir is for the file that says where a linked work tree's configuration is.
func (c *Classifier) commonDir(ch Change) string {
	text, _ := c.New.Read(ch.Path)
	dir := path.Dir(ch.Path)
	if ch.Kind == File && path.Base(path.Dir(dir)) == "worktrees" && absolute(dir, strings.TrimRight(text, "\r\n")) == path.Dir(path.Dir(dir)) {
		return ""
	}
	return reasonElse
}

// todo is for the steps of a rebase that was interrupted.
func (c *Classifier) todo(ch Change) string {
	if c.newLines(ch.Path, []string{"exec", "x"}) {
		return reasonTodo
	}
	return ""
}
