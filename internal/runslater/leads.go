package runslater

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
)

// A project may already make a file with any name run later: by a link, by core.hooksPath, by an include, or by a
// command that the configuration names. This file finds such paths, once, in the project as it was.

// hookNames are the files that git executes in a directory of hooks.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update",
	"reference-transaction", "push-to-checkout", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change",
}

// lead finds these paths for the roots, and for repositories that were noted since.
func (c *Classifier) lead() {
	if !c.linked {
		c.linked = true
		c.watched = map[string]watched{}
		for _, root := range c.Roots {
			c.leadGit(root)
			c.survey(root)
		}
	}
	for len(c.repos) > 0 {
		c.plainRoot = "" // Plain must look again
		dir := c.repos[0]
		c.repos = c.repos[1:]
		c.leadGit(dir)
		c.leadSettings(dir, c.exists(dir))
	}
}

// survey looks for what the names at the top of a root lead to.
func (c *Classifier) survey(root string) {
	names, nested := c.Old.Survey(root, ".git", isKnown)
	c.leadLinks(root, names)
	c.leadSettings(root, func(name string) bool { return slices.Contains(names, name) })
	// A repository one level below may lead to a path beside it.
	for _, name := range nested {
		if name != ".git" {
			c.leadGit(path.Join(root, name))
			c.leadSettings(path.Join(root, name), c.exists(path.Join(root, name)))
		}
	}
}

// Again surveys the roots again, because Old.Survey did not have everything before. It reports whether that led to more
// paths: then changes that were classified before may have another reason.
func (c *Classifier) Again() (more bool) {
	before := len(c.watched)
	for _, root := range c.Roots {
		c.survey(root)
	}
	c.plainRoot = "" // Plain must look again
	return len(c.watched) > before
}

// led returns the reason for a change at, in or above a watched path.
func (c *Classifier) led(ch Change) string {
	if c.replaces(ch) {
		return reasonRemote
	}
	if len(c.watched) == 0 {
		return ""
	}
	for p := ch.Path; p != "/"; p = path.Dir(p) {
		w, ok := c.watched[p]
		if !ok {
			continue
		}
		if w.config && p == ch.Path {
			return c.config(ch)
		}
		return w.reason
	}
	if ch.Kind == File {
		return ""
	}
	for p, w := range c.watched {
		if paths.Inside(p, ch.Path) {
			return w.reason // a link in place of a directory above
		}
	}
	return ""
}

// watch watches a path, the links on the way, and its end, and returns the end.
func (c *Classifier) watch(p string, w watched) (end string) {
	if p == "" {
		return ""
	}
	visit := func(at string) {
		if _, known := c.watched[at]; !known && c.root(at) != "" && c.root(at) != at {
			c.watched[at] = w
		}
	}
	dir, base := path.Split(p)
	end = resolveIn(c.oldLinks(), c.parent(dir, visit), base, visit)
	visit(end)
	return end
}

// parent returns where a directory leads. It resolves each directory once, because commands can have many words below
// one, and directories can be deep.
func (c *Classifier) parent(dir string, visit func(string)) string {
	if dir = strings.TrimRight(dir, "/"); dir == "" {
		return "/"
	}
	end, known := c.parents[dir]
	if !known {
		above, base := path.Split(dir)
		end = resolveIn(c.oldLinks(), c.parent(above, visit), base, visit)
		if c.parents == nil {
			c.parents = map[string]string{}
		}
		c.parents[dir] = end
	}
	return end
}

func (c *Classifier) oldLinks() *links {
	c.links.view, c.links.roots = c.Old, c.Roots
	return &c.links
}

// isKnown reports whether a pattern may begin with a name.
func isKnown(name string) bool { return !names().at(fold(name), func(*pattern) bool { return false }) }

// leadLinks follows links with known names at the top of a root, and in directories with known names.
func (c *Classifier) leadLinks(root string, list []string) {
	for _, name := range list {
		names().at(fold(name), func(p *pattern) bool {
			c.leadLink(p, []string{fold(name)}, path.Join(root, name))
			return true
		})
	}
}

func (c *Classifier) leadLink(p *pattern, elems []string, at string) {
	got := p.fits(elems)
	if got == no {
		return
	}
	switch c.Old.Kind(at) {
	case Link:
		c.watch(at, watched{reason: p.reason})
	case Directory:
		list, known := c.listed[at]
		if !known && len(elems) < 4 {
			if c.listed == nil {
				c.listed = map[string][]string{}
			}
			list = c.Old.Names(at)
			c.listed[at] = list
		}
		for _, name := range list {
			if len(elems) < 4 {
				c.leadLink(p, append(elems[:len(elems):len(elems)], fold(name)), path.Join(at, name))
			}
		}
	}
}

// leadGit handles the repository of a work tree, or a bare one.
func (c *Classifier) leadGit(top string) {
	dir := path.Join(top, ".git")
	switch c.Old.Kind(dir) {
	case Directory:
	case File:
		text, _ := c.Old.Read(dir)
		name, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
		if dir = absolute(top, name); !ok || dir == "" {
			return
		}
	case Link:
		dir = c.watch(dir, watched{reason: reasonElse})
	default:
		if c.Old.Kind(path.Join(top, "HEAD")) == Missing || !c.isGit(top).old {
			return
		}
		dir = top
	}
	common := dir
	if text, ok := c.Old.Read(path.Join(dir, "commondir")); ok {
		common = absolute(dir, strings.TrimRight(text, "\r\n"))
	}
	c.leadConfig(path.Join(common, "config"), top)
	c.leadConfig(path.Join(dir, "config.worktree"), top)
	hooks := path.Join(common, "hooks")
	if c.Old.Kind(hooks) == Link {
		hooks = c.watch(hooks, watched{reason: reasonHook})
	}
	c.leadHooks(hooks, top)
	if husky := path.Join(top, ".husky"); c.Old.Kind(husky) == Directory {
		c.leadHooks(husky, top) // husky's own hooks execute those with the same names
	}
}

// leadHooks follows the links in a directory of hooks: hooks, and other files, which hooks may use.
// In hooks, it looks for files that they name.
func (c *Classifier) leadHooks(dir, top string) {
	for _, name := range hookNames {
		switch at := path.Join(dir, name); c.Old.Kind(at) {
		case Link:
			c.leadScript(c.watch(at, watched{reason: reasonHook}), top)
		case File:
			c.leadScript(at, top)
		}
	}
	for _, name := range c.Old.Names(dir) {
		if strings.HasSuffix(name, ".sample") {
			continue
		}
		if at := path.Join(dir, name); c.Old.Kind(at) == Link {
			c.watch(at, watched{reason: reasonHook})
		}
	}
}

// A config is a file of git's configuration: at is the path by which git reads it, whose directory, without links, is
// where its relative paths begin; end is where it is.
type config struct{ at, end string }

// leadConfig looks for files that a configuration, or a file that it includes, names. git executes relative commands in
// top. leadConfig reads each file once, because files can include each other.
func (c *Classifier) leadConfig(at, top string) {
	first := config{at, at}
	if c.Old.Kind(at) == Link {
		first.end = c.watch(at, watched{reason: reasonConfig, config: true})
	}
	read := map[string]bool{}
	for files := []config{first}; len(files) > 0; files = files[1:] {
		if read[files[0].at] {
			continue
		}
		read[files[0].at] = true
		if text, ok := c.Old.Read(files[0].end); ok {
			files = append(files, c.leadKeys(files[0].at, top, Leads(text))...)
			c.leadRemotes(first.at, text)
		}
	}
}

// leadKeys looks for the files that the keys of a configuration name, and returns those that it includes.
func (c *Classifier) leadKeys(at, top string, leads []Lead) (included []config) {
	for _, l := range leads {
		switch l.Kind {
		case LeadHooks:
			end := c.watch(c.named(top, l.Path), watched{reason: reasonHook})
			if end != "" && c.root(end) == end {
				for _, name := range hookNames {
					c.watch(path.Join(end, name), watched{reason: reasonHook})
				}
			}
			c.leadHooks(end, top)
		case LeadInclude:
			file := c.named(path.Dir(at), l.Path)
			if end := c.watch(file, watched{reason: reasonConfig, config: true}); end != "" {
				dir := c.parent(path.Dir(file), func(string) {}) // which watch has resolved
				included = append(included, config{path.Join(dir, path.Base(file)), end})
			}
		case LeadCommand:
			c.watch(c.named(top, l.Path), watched{reason: "executed by " + l.Key})
		case LeadWord:
			// The name of a directory is most often that of a subcommand, too.
			if p := c.named(top, l.Path); p != "" && p != top && c.Old.Kind(p) != Directory {
				c.watch(p, watched{reason: "executed by " + l.Key})
			}
		}
	}
	return included
}

// named returns the absolute form of a path in the configuration, relative to dir. git, or the shell, replaces a tilde
// by the owner's home directory. Empty: unknown.
func (c *Classifier) named(dir, name string) string {
	if name == "" || name[0] != '~' {
		return absolute(dir, name)
	}
	user, rest, _ := strings.Cut(name[1:], "/")
	if user != "" && user != path.Base(os.Getenv("HOME")) && user != os.Getenv("USER") && user != os.Getenv("LOGNAME") {
		return ""
	}
	home := c.homeDir()
	if home == "" {
		return ""
	}
	return absolute(home, "./"+rest)
}

// homeDir returns the owner's home directory, without links, as the roots have none either. Empty: unknown.
func (c *Classifier) homeDir() string {
	if !c.homeKnown {
		c.homeKnown = true
		c.home = os.Getenv("HOME")
		if real, err := filepath.EvalSymlinks(c.home); err == nil {
			c.home = real
		}
		if !path.IsAbs(c.home) || c.home == "/" {
			c.home = ""
		}
	}
	return c.home
}

// A LeadKind is how git uses a path that its configuration names.
type LeadKind uint8

// The kinds. They say what a path is relative to.
const (
	LeadHooks     LeadKind = iota // a directory of hooks; to the work tree
	LeadInclude                   // more configuration; to the file that names it
	LeadCommand                   // a word of a command with a slash in it; to the work tree
	LeadWorkTree                  // the work tree of this git directory; to that directory
	LeadSubmodule                 // a submodule, in .gitmodules; to the work tree
	LeadWord                      // another word of a command that may be a file; to the work tree
)

// A Lead is a path that a git configuration names.
type Lead struct {
	Kind LeadKind
	Key  string // section and name in lower case
	Path string // as written
}

// Leads returns the paths that the text of a git configuration, or of .gitmodules, names, up to the first error.
func Leads(text string) (list []Lead) {
	entries, _ := parseConfig(text)
	for _, e := range entries {
		section, sub, name := e.parts()
		switch {
		case e.key == "core.hookspath":
			list = append(list, Lead{LeadHooks, e.key, e.value})
		case e.key == "include.path" || section == "includeif" && name == "path":
			list = append(list, Lead{LeadInclude, e.key, e.value})
		case e.key == "core.worktree":
			list = append(list, Lead{LeadWorkTree, e.key, e.value})
		case section == "submodule" && sub != "" && name == "path":
			list = append(list, Lead{LeadSubmodule, e.key, e.value})
		case e.executes("", nil):
			list = append(list, words(e)...)
		}
	}
	return list
}

const maxPath = 4096

// words returns the words of a command that may be files: all words except git's own in an alias, what follows "=" or
// an option's letter, and what is in a directory that the command changes to.
func words(e entry) (list []Lead) {
	ofGit := strings.HasPrefix(e.key, "alias.") && !strings.HasPrefix(e.value, "!")
	add := func(kind LeadKind, word string) {
		if word != "" && (!ofGit || strings.ContainsAny(word, "./")) {
			list = append(list, Lead{kind, e.key, word})
		}
	}
	dir, before := "", ""
	for i, word := range strings.FieldsFunc(e.value, func(r rune) bool { return strings.ContainsRune(" \t\n!;|&()'\"$`<>{},", r) }) {
		switch {
		case strings.Contains(word, "/"):
			add(LeadCommand, word)
		case i > 0:
			add(LeadWord, word)
		}
		if _, value, ok := strings.Cut(word, "="); ok {
			add(LeadWord, value)
		}
		if len(word) > 2 && word[0] == '-' {
			add(LeadWord, word[2:])
		}
		switch {
		case before == "cd" || before == "-C":
			if dir = path.Join(dir, word); len(dir) > maxPath {
				dir = "" // too long for any path
			}
		case dir != "" && !path.IsAbs(word) && len(dir)+len(word) < maxPath:
			add(LeadWord, path.Join(dir, word))
		}
		before = word
	}
	return list
}
