package runslater

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
)

const (
	reasonHook   = "git hook"
	reasonLink   = "git follows this link"
	reasonConfig = "git configuration: "
	reasonGitDir = "makes its directory a git directory"
	reasonElse   = "leads git elsewhere"
	reasonTop    = "makes CI settings of files that are there"
	reasonTodo   = "executed when git goes on"
	reasonIndex  = "git index that leads elsewhere"
	reasonCopies = "git copies the files that it names"
)

// isGit says whether a directory is a git directory in each view. part: in one of them it has a part of a repository,
// which the command may complete later.
type isGit struct{ old, now, part bool }

// gitReason decides about a path in a git directory: below .git by name, elsewhere by content.
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
	// Of what others can write to, only directories, and files with a meaning, matter.
	if ch.Kind != File && (!ch.Given || ch.tree && !data) && (named >= 0 || c.inGit(path.Dir(ch.Path)) || ch.tree && c.isGit(ch.Path).now) {
		if base == "head" && strings.HasPrefix(c.New.Target(ch.Path), "refs/") {
			return ""
		}
		return reasonLink
	}
	for i, e := range elems {
		if !special(e) {
			continue
		}
		if reason := c.gitName(ch, elems, i, upTo(i), named >= 0 && named < i, data); reason != "" {
			return reason
		}
	}
	// A directory of objects or refs may have no change of its own; a file in it shows that it is one.
	for i, e := range elems[:len(elems)-1] {
		if e == "objects" || e == "refs" {
			if reason := c.becomesAt(upTo(i), e); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// gitName decides about element i of a path, which is in dir. below: that is below a .git; data: the path is where git
// stores data.
func (c *Classifier) gitName(ch Change, elems []string, i int, dir string, below, data bool) string {
	e, last, in := elems[i], i == len(elems)-1, below && !data
	if !last && e != "hooks" && e != "remotes" && e != "branches" {
		return ""
	}
	switch e {
	case "remotes", "branches": // as old versions wrote them
		if !last && (in || c.isGit(dir).now) {
			return reasonRemote
		}
		return ""
	case "hooks":
		switch g := c.isGit(dir); {
		case !last && (in || g.now):
			return c.hook(ch)
		case !last && g.part && i == len(elems)-2 && slices.Contains(hookNames, elems[i+1]):
			return reasonHook
		case last && ch.Kind != File && (in || g.part):
			return reasonLink
		}
	case "config", "config.worktree":
		switch g := c.isGit(dir); {
		case in || g.now:
			return c.config(ch)
		case ch.Kind != File && g.part:
			return reasonLink
		case ch.Kind == File:
			return c.maybeConfig(ch)
		}
	case "commondir":
		if below && data && c.New.Kind(path.Join(dir, "HEAD")) == Missing {
			return "" // a branch
		}
		return c.commonDir(dir)
	case "head", "objects", "refs":
		return c.becomesAt(dir, e)
	}
	if in || c.isGit(dir).now {
		switch {
		case isIndex(e) && ch.Content && c.badIndex(c.New, dir, ch.Path):
			return reasonIndex
		case e == "merge_rr" && ch.Content && c.resolves(ch.Path):
			return reasonCopies
		}
	}
	if !in && !c.isGit(path.Dir(dir)).now {
		return ""
	}
	switch path.Base(dir) + "/" + e {
	case "rebase-merge/strategy", "sequencer/opts":
		return c.strategy(ch)
	case "rebase-apply/apply-opt":
		return c.applyOptions(ch)
	case "rebase-merge/git-rebase-todo":
		return c.todo(ch)
	}
	return ""
}

// isGit applies git's own test for git directories.
func (c *Classifier) isGit(dir string) isGit {
	if g, ok := c.git[dir]; ok {
		return g
	}
	if c.git == nil {
		c.git = map[string]isGit{}
	}
	has := func(v View, name string) bool { return v.Kind(path.Join(dir, name)) != Missing }
	looks := func(v View) bool {
		return has(v, "HEAD") && (has(v, "commondir") || has(v, "objects") && has(v, "refs"))
	}
	g := isGit{old: looks(c.Old) && validHead(c.Old, path.Join(dir, "HEAD")), now: looks(c.New)}
	g.part = g.old || g.now
	for _, name := range [...]string{"HEAD", "objects", "refs", "commondir"} {
		g.part = g.part || has(c.New, name) || has(c.Old, name)
	}
	c.git[dir] = g
	return g
}

// inGit reports whether a directory is a git directory with any name, or in one, and not in a work tree in one.
func (c *Classifier) inGit(dir string) bool {
	in, known := c.below[dir]
	if !known && c.root(dir) != "" {
		g := c.isGit(dir)
		in = g.old || g.now || c.New.Kind(path.Join(dir, ".git")) == Missing && dir != "/" && c.inGit(path.Dir(dir))
		if c.below == nil {
			c.below = map[string]bool{}
		}
		c.below[dir] = in
	}
	return in
}

// validHead reports whether git accepts a file as HEAD.
func validHead(v View, p string) bool {
	if v.Kind(p) == Link {
		return strings.HasPrefix(v.Target(p), "refs/")
	}
	text, _ := v.Read(p)
	if to, ok := strings.CutPrefix(text, "ref:"); ok {
		return strings.HasPrefix(strings.TrimLeft(to, " \t\r\n"), "refs/")
	}
	return len(text) >= 40 && strings.Trim(text[:40], "0123456789abcdefABCDEF") == ""
}

// hook decides about a file in a directory of hooks. Git does not execute samples.
func (c *Classifier) hook(ch Change) string {
	if (ch.Kind == File || ch.Given && !ch.tree) && strings.HasSuffix(ch.Path, ".sample") {
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
	now, ok := c.readConfig(ch.Path)
	if !ok {
		return reasonConfig + "cannot be read"
	}
	old, _ := c.Old.Read(ch.Path)
	if key := addedKeys(ch.Path, old, now, c.Roots); key != "" {
		return reasonConfig + key
	}
	if key := c.remote(c.New, ch.Path, old, now); key != "" {
		return reasonConfig + key
	}
	if dir := path.Dir(ch.Path); isSHA256(old) != isSHA256(now) && (c.Old.Kind(ch.Path) != Missing || c.indexes(dir)) {
		return reasonConfig + keyFormat // git would read another index than the one that was checked
	}
	return ""
}

// readConfig reads what may be a configuration, unless too much was read already.
func (c *Classifier) readConfig(p string) (text string, ok bool) {
	if c.parsed <= mostParsed {
		text, ok = c.New.Read(p)
		c.parsed += len(text)
	}
	return text, ok
}

// maybeConfig decides about a file that seems to be no repository's configuration: another command can make a
// repository around it, or name its directory in a commondir file. Git executes nothing of a configuration that it
// cannot parse.
func (c *Classifier) maybeConfig(ch Change) string {
	if !ch.Content {
		return ""
	}
	now, _ := c.readConfig(ch.Path)
	if c.parsed > mostParsed {
		return reasonConfig + "too many files to read them all"
	}
	old, _ := c.Old.Read(ch.Path)
	if key := addedEntries(ch.Path, old, now, c.Roots); key != "" {
		return reasonConfig + key
	}
	if key := c.remote(c.New, ch.Path, old, now); key != "" {
		return reasonConfig + key
	}
	return ""
}

// becomesAt decides about an object that makes a directory a git directory, or a part of one, so that its earlier
// content runs. name is the part's, in lower case.
func (c *Classifier) becomesAt(dir, name string) string {
	if c.isGit(dir).old {
		return ""
	}
	at := path.Join(dir, name)
	reason, known := c.made[at]
	if !known {
		if c.made == nil {
			c.made = map[string]string{}
		}
		if reason = c.makes(dir, name); reason == "" && fold(path.Base(dir)) == ".git" {
			reason = c.makesTop(path.Dir(dir))
		}
		c.made[at] = reason
	}
	return reason
}

func (c *Classifier) makes(dir, name string) string {
	if name == "head" {
		name = "HEAD"
		if c.New.Kind(path.Join(dir, "commondir")) != Missing {
			if reason := c.commonDir(dir); reason != "" {
				return reason
			}
		}
	}
	if c.isGit(dir).now && c.executesIn(c.Old, dir, true) {
		return reasonGitDir
	}
	at := path.Join(dir, name)
	if known := c.Old.Kind(at) != Missing && (name != "HEAD" || validHead(c.Old, at)); !known && c.executesIn(c.Old, dir, false) {
		return reasonGitDir
	}
	return ""
}

// executesIn reports whether git executes anything because of a git directory. Without whole, only a part of one
// exists, and names that other programs use too do not count.
func (c *Classifier) executesIn(v View, dir string, whole bool) bool {
	for _, name := range v.Names(dir) {
		if at := path.Join(dir, name); isIndex(fold(name)) && v.Kind(at) != Directory && c.badIndex(v, dir, at) {
			return true
		}
	}
	for _, name := range [...]string{"config", "config.worktree"} {
		at := path.Join(dir, name)
		switch v.Kind(at) {
		case Missing:
			continue
		case Directory:
			if !whole {
				continue
			}
		case File:
			text, ok := v.Read(at)
			if added := addedKeys; ok {
				if !whole {
					added = addedEntries
				}
				if added(at, "", text, c.Roots) == "" && c.remote(v, at, "", text) == "" {
					continue
				}
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
	if !whole {
		return slices.ContainsFunc(hookNames, func(name string) bool { return v.Kind(path.Join(hooks, name)) != Missing })
	}
	return slices.ContainsFunc(v.Names(hooks), func(name string) bool { return !strings.HasSuffix(name, ".sample") })
}

// gitFile decides about a .git that is a file: of a linked work tree or a submodule.
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
	if !ok || dir == "" || !slices.ContainsFunc(c.Roots, func(root string) bool { return paths.Inside(dir, root) }) {
		return reasonElse
	}
	for at := dir; at != "/"; at = path.Dir(at) {
		if c.New.Kind(at) == Link {
			return reasonElse
		}
	}
	// A target in git's own directories for these is as safe as they are.
	for _, sub := range [...]string{"/worktrees/", "/modules/"} {
		if i := strings.Index(dir, sub); i > 0 && (path.Base(dir[:i]) == ".git" || c.isGit(dir[:i]).old) {
			return c.makesTop(path.Dir(ch.Path))
		}
	}
	common := dir
	if text, ok := c.New.Read(path.Join(dir, "commondir")); ok {
		common = absolute(dir, strings.TrimRight(text, "\r\n"))
	}
	if !c.isGit(dir).now || c.executesIn(c.New, dir, true) || common != dir && c.executesIn(c.New, common, true) {
		return reasonElse
	}
	return c.makesTop(path.Dir(ch.Path))
}

// makesTop decides about a .git where no repository was: names that have a meaning at the top of a repository get it.
// At the top of a root they have it without a repository.
func (c *Classifier) makesTop(dir string) (reason string) {
	// A .git directory that is no repository yet can be what an earlier commit took of one.
	git := path.Join(dir, ".git")
	if k := c.Old.Kind(git); k != Missing && (k != Directory || c.isGit(git).old) || slices.Contains(c.Roots, dir) {
		return ""
	}
	for _, name := range c.Old.Names(dir) {
		names().at(fold(name), func(p *pattern) bool {
			_, below, _ := strings.Cut(p.text, "/")
			got := p.fits([]string{fold(name)})
			if p.scope == top && got != no && c.New.Kind(path.Join(dir, name, below)) != Missing {
				reason = reasonTop
			}
			return reason == ""
		})
	}
	return reason
}

// commonDir decides about the file that names the configuration of a linked work tree. Git has one only in worktrees.
func (c *Classifier) commonDir(dir string) string {
	at := path.Join(dir, "commondir")
	text, _ := c.New.Read(at)
	common := path.Dir(path.Dir(dir))
	if c.New.Kind(at) != File || path.Base(path.Dir(dir)) != "worktrees" || absolute(dir, strings.TrimRight(text, "\r\n")) != common {
		return reasonElse
	}
	g := c.isGit(common)
	if g.old || (g.now || path.Base(common) == ".git") && !c.executesIn(c.Old, common, true) {
		return ""
	}
	return reasonElse
}

// todo decides about the steps of an interrupted rebase.
func (c *Classifier) todo(ch Change) string {
	now, ok := c.New.Read(ch.Path)
	old, _ := c.Old.Read(ch.Path)
	before := strings.Split(old, "\n")
	for line := range strings.SplitSeq(now, "\n") {
		words := strings.Fields(line)
		if len(words) > 0 && (words[0] == "exec" || words[0] == "x") && !slices.Contains(before, line) {
			return reasonTodo
		}
	}
	if !ok {
		return reasonTodo
	}
	return ""
}

// strategies are git's built-in merge strategies.
var strategies = []string{"", "ort", "recursive", "resolve", "octopus", "ours", "subtree"}

// strategy decides about the state of a rebase or cherry-pick: any other strategy is a program.
func (c *Classifier) strategy(ch Change) string {
	text, ok := c.New.Read(ch.Path)
	if !ok {
		return reasonTodo
	}
	list := []entry{{key: "options.strategy", value: strings.TrimSpace(text)}}
	if path.Base(ch.Path) == "opts" {
		var err error
		if list, err = parseConfig(text); err != nil {
			return reasonTodo
		}
	}
	for _, e := range list {
		if e.key == "options.strategy" && !slices.Contains(strategies, e.value) {
			return reasonTodo
		}
	}
	return ""
}

// patchOptions are the options of git apply that git am accepts. Others write to any path.
var patchOptions = []string{"-p", "-C", "--whitespace=", "--directory=", "--exclude=", "--include=", "--ignore-whitespace", "--ignore-space-change", "--reject"}

// applyOptions decides about the options of an interrupted git am.
func (c *Classifier) applyOptions(ch Change) string {
	text, ok := c.New.Read(ch.Path)
	for word := range strings.FieldsSeq(text) {
		ok = ok && slices.ContainsFunc(patchOptions, func(option string) bool { return strings.HasPrefix(strings.Trim(word, "'"), option) })
	}
	if !ok {
		return reasonTodo
	}
	return ""
}
