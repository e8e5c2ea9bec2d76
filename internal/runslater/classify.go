package runslater

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/paths"
)

// A Change is one object that differs. Directories only count by some names, see MayCount.
type Change struct {
	Path string // absolute
	Kind Kind   // the new kind; Missing: it was deleted
	// Content says that it is new, or has another content or type; Executable, that it has become executable.
	Content, Executable bool
	// Given says that other users can write to it who could not before.
	Given bool

	tree bool // see Reason
}

// A Classifier tells which changes of some roots run later. Only one goroutine may use it.
type Classifier struct {
	Roots    []string // absolute
	Old, New View

	// Own returns where a path leads on this host, and whether that is in one of nsrun's own directories, to which
	// commands write: playgrounds and sessions. Nil: everything outside of the roots is.
	Own func(path string) (real string, in bool)

	watched map[string]watched // by path
	linked  bool               // watched has the roots' own links
	places  map[string]bool    // where remotes of git are, see replaces
	git     map[string]isGit   // results of isGit, by directory
	below   map[string]bool    // results of inGit, by directory
	made    map[string]string  // results of becomesAt
	listed  map[string][]string
	last    string   // the directory of the last change
	written []string // its elements
	elems   []string // the same, folded
	dull    int      // how many of the first elements are not interesting
	plain   bool     // none of the elements is interesting
	repos   []string // work trees that lead has not handled yet
	home    string   // see homeDir
	links   links    // of Old

	indexed   int // bytes of indexes of git that were read
	searched  int // bytes of files that were searched for settings
	decoded   int // bytes of files that were decoded as JSON
	parsed    int // bytes of files that were parsed as git's configuration
	homeKnown bool
	parents   map[string]string // results of parent

	plainRoot, plainDir string // the directory of the last call of Plain
	plainHere           bool   // whether only the names of files decide there
}

// watched is a path to which a file that runs leads.
type watched struct {
	reason string
	config bool // it is git configuration
}

var names = sync.OnceValue(newTable)

// MayCount reports whether a new directory at a relative path may count: as a part of a repository, or because of an
// option.
func MayCount(p string) bool { return mayBeGit(fold(path.Base(p))) || hasOption(strings.Split(p, "/")) }

func mayBeGit(name string) bool { return name == "objects" || name == "refs" }

// reasonOption is for names that programs take for options when somebody gives them all names of a directory: tar(1)
// executes what "--checkpoint-action=exec=sh x" says, less(1) what "+!x" says.
const reasonOption = "programs take its name for an option"

// hasOption reports whether one of the elements of a path is such a name. Others that begin with a hyphen are usual.
func hasOption(elems []string) bool {
	return slices.ContainsFunc(elems, func(name string) bool {
		switch text := strings.TrimLeft(name, "-"); {
		case len(text) == len(name):
			return strings.HasPrefix(name, "+") && strings.Contains(name, "!")
		default:
			return text != "" && isAlpha(text[0]) && strings.ContainsAny(text, "= ")
		}
	})
}

// folded are characters that file systems take for others (ext4 and f2fs with casefold, APFS): full case folding makes
// these ASCII letters. strings.ToLower does so for the Kelvin sign.
var folded = strings.NewReplacer("ſ", "s", "ß", "ss", "ẞ", "ss", "ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st")

// fold returns a name as file systems compare it that take other names for it: in lower case, without characters that
// they ignore (those that Unicode calls default ignorable, at least), and without dots and spaces at the end (FAT,
// NTFS).
func fold(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		name = folded.Replace(strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
				return -1
			}
			return r
		}, name))
	}
	if name = strings.ToLower(strings.TrimRight(name, ". ")); name == "git~1" {
		return ".git" // the short name that FAT and NTFS give it
	}
	return name
}

// special reports whether a name has a meaning for git.
func special(name string) bool {
	switch name {
	case "hooks", "config", "config.worktree", "commondir", "head", "objects", "refs", "strategy", "opts", "git-rebase-todo", "apply-opt", "merge_rr", "remotes", "branches":
		return true
	}
	return isIndex(name)
}

// Repository notes that there is a work tree of git at a path, besides the roots: its configuration may name more
// files.
func (c *Classifier) Repository(dir string) { c.repos = append(c.repos, dir) }

// Plain reports, at little cost and for most paths, that no change there runs later, unless it is a link. The path is
// relative to a root.
func (c *Classifier) Plain(root, p string) bool {
	c.lead()
	dir, base := "", p
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		dir, base = p[:i], p[i+1:]
	}
	if dir != c.plainDir || root != c.plainRoot {
		c.plainRoot, c.plainDir = root, dir
		at := path.Join(root, dir)
		c.enter(at)
		c.plainHere = c.plain && !isSystem(at+"/") && !c.inHome(at+"/") && !c.leadsNear(at)
	}
	return c.plainHere && !c.interesting(fold(base))
}

// leadsNear reports whether the target of a link or configuration is in, at or above a directory.
func (c *Classifier) leadsNear(dir string) bool {
	for p := range c.watched {
		if paths.Inside(p, dir) || paths.Inside(dir, p) {
			return true
		}
	}
	for p := range c.places {
		if path.Dir(p) == dir {
			return true
		}
	}
	return false
}

// reasonSettings is for a project's settings of nsrun.
const reasonSettings = "nsrun settings"

// Gone says why a file of this name matters, if it is removed or a directory is in its place: the next commands would
// have fewer restrictions.
func Gone(name string) string {
	if fold(name) == ".nsrun.toml" {
		return reasonSettings
	}
	return ""
}

// reasonGiven is for what others can give another content.
const reasonGiven = "other users could write to it"

// Reason says in a few words why a change runs later. Empty: it does not.
func (c *Classifier) Reason(ch Change) string {
	reason := c.reason(ch)
	if reason == "" && ch.Given {
		// Like a link: what is there can have any content later.
		ch.tree, ch.Kind, ch.Content = ch.Kind == Directory, Link, true
		if c.reason(ch) != "" || ch.tree && c.holds(ch.Path) {
			reason = reasonGiven
		}
	}
	return reason
}

// holds reports whether others who can write to a directory could put something in the place of what runs later there:
// it is a root, or something in it would count itself, if others could write to that.
func (c *Classifier) holds(dir string) bool {
	if slices.Contains(c.Roots, dir) {
		return true
	}
	return slices.ContainsFunc(c.Old.Names(dir), func(name string) bool {
		at := path.Join(dir, name)
		kind := c.New.Kind(at)
		return kind != Missing && c.reason(Change{Path: at, Kind: Link, Content: true, Given: true, tree: kind == Directory}) != ""
	})
}

func (c *Classifier) reason(ch Change) string {
	if ch.Kind == Missing || !ch.Content && !ch.Executable {
		return ""
	}
	if ch.Kind == Directory {
		if dir, base := path.Split(ch.Path); ch.Content && mayBeGit(fold(base)) {
			if reason := c.becomesAt(path.Clean(dir), fold(base)); reason != "" {
				return reason
			}
		}
		return c.optionReason(ch.Path)
	}
	c.lead()
	if reason := c.led(ch); reason != "" {
		return reason
	}
	dir, base := path.Split(ch.Path)
	c.enter(strings.TrimSuffix(dir, "/"))
	base = fold(base)
	if c.plain && ch.Kind == File && !c.interesting(base) && !isSystem(ch.Path) && !c.inHome(ch.Path) {
		return ""
	}
	elems := append(slices.Clip(c.elems), base)
	if reason := c.gitReason(ch, elems); reason != "" {
		return reason
	}
	return c.nameReason(ch, elems)
}

// enter sets the directory of the next change. Many changes share one, or the directories above.
func (c *Classifier) enter(dir string) {
	if dir == c.last && c.elems != nil {
		return
	}
	n, shared := 0, true
	for e := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		if shared = shared && n < len(c.written) && c.written[n] == e; !shared {
			c.written, c.elems = append(c.written[:n], e), append(c.elems[:n], fold(e))
			if c.dull = min(c.dull, n); c.dull == n && !c.interesting(c.elems[n]) {
				c.dull++
			}
		}
		n++
	}
	c.last, c.written, c.elems, c.dull = dir, c.written[:n], c.elems[:n], min(c.dull, n)
	c.plain = c.dull == n
}

// interesting reports whether anything is known about a name.
func (c *Classifier) interesting(name string) bool {
	return special(name) || strings.HasPrefix(name, ".git") || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "+") || isKnown(name)
}

// optionReason decides by names that programs take for options, below the root.
func (c *Classifier) optionReason(p string) string {
	if hasOption(strings.Split(strings.TrimPrefix(p, c.root(p)), "/")) {
		return reasonOption
	}
	return ""
}

// nameReason decides by the path alone, and for some files by their lines.
func (c *Classifier) nameReason(ch Change, elems []string) (reason string) {
	root := c.root(ch.Path)
	below := len(strings.Split(root, "/")) - 1 // how many elements the root has
	if root == "/" {
		below = 0
	}
	for i := range elems {
		names().at(elems[i], func(p *pattern) bool {
			got := p.fits(elems[i:])
			if got == no || got == leading && ch.Kind == File || !c.means(p, ch.Path, elems, i, below) {
				return true
			}
			if got == yes && ch.Kind == File && p.lines != nil && !c.newSettings(ch.Path, p.lines) {
				return true
			}
			if got == yes && ch.Kind == File && p.keys != nil && !c.newKeys(ch.Path, p.keys) {
				return true
			}
			if got == yes && ch.Kind == File && p.harmless != nil && c.only(ch.Path, p.harmless) {
				return true
			}
			reason = p.reason
			return false
		})
		if reason != "" {
			return reason
		}
	}
	if reason := c.optionReason(ch.Path); reason != "" {
		return reason
	}
	if isSystem(ch.Path) && anchored.fits(elems, ch.Kind) {
		return anchored.reason
	}
	if c.inHome(ch.Path) && atHome.fits(elems[strings.Count(c.homeDir(), "/"):], ch.Kind) {
		return atHome.reason
	}
	return ""
}

// fits reports whether one of the patterns of a class, which begin at one place, means an object.
func (c *class) fits(elems []string, kind Kind) bool {
	for text := range strings.FieldsSeq(c.patterns) {
		text, below := strings.CutSuffix(text, "/**")
		p := &pattern{text: strings.TrimPrefix(text, "/"), below: below}
		if got := p.fits(elems); got == yes || got == leading && kind != File {
			return true
		}
	}
	return false
}

// inHome reports whether a path may be one that has a meaning below the home directory, where that is in a root. A
// project below it has none.
func (c *Classifier) inHome(p string) bool {
	home := c.homeDir()
	below, ok := strings.CutPrefix(p, home+"/")
	if home == "" || !ok || c.root(home) == "" || c.root(p) != c.root(home) {
		return false
	}
	first, _, _ := strings.Cut(below, "/")
	return first == "" || slices.ContainsFunc(strings.Fields(atHome.patterns), func(text string) bool {
		text, _, _ = strings.Cut(text, "/")
		return text == fold(first)
	})
}

// isSystem reports whether the path may be an anchored one.
func isSystem(p string) bool {
	return strings.HasPrefix(p, "/etc/") || strings.HasPrefix(p, "/var/spool/")
}

// root returns the root that contains a path.
func (c *Classifier) root(p string) (root string) {
	for _, r := range c.Roots {
		if paths.Inside(p, r) && len(r) >= len(root) {
			root = r
		}
	}
	return root
}

// means reports whether a pattern that begins at element i of a path applies there; below is the number of elements of
// the root.
func (c *Classifier) means(p *pattern, at string, elems []string, i, below int) bool {
	if p.first() == ".claude" && len(elems) > i+1 && slices.Contains(notClaude, elems[i+1]) {
		return false
	}
	dir := "/" + strings.Join(strings.Split(at[1:], "/")[:i], "/")
	if p.beside != "" && c.New.Kind(path.Join(dir, p.beside)) == Missing && c.Old.Kind(path.Join(dir, p.beside)) == Missing {
		return false
	}
	if p.scope == anywhere || i < below {
		return true
	}
	if slices.ContainsFunc(elems[below:i], dependencies) {
		return false
	}
	if p.scope == own || i == below {
		return true
	}
	return c.New.Kind(path.Join(dir, ".git")) != Missing
}

// only reports whether a file has only comments, and settings and headings with some names.
func (c *Classifier) only(p string, words []string) bool {
	now, ok := c.New.Read(p)
	if !ok || strings.ContainsRune(now, '\r') {
		return false
	}
	for line := range strings.SplitSeq(now, "\n") {
		key, value, is := strings.Cut(line, " = ")
		if line != "" && line[0] != '#' && (!slices.Contains(words, key) || is && !c.harmlessRemote(p, value)) {
			return false
		}
	}
	return true
}
