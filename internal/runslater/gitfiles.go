package runslater

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/gitindex"
)

// isIndex reports whether git reads a file of this name as an index. An index that is split has most of its entries in
// another file.
func isIndex(name string) bool { return name == "index" || strings.HasPrefix(name, "sharedindex.") }

// mostIndexed limits how many bytes of indexes one Classifier reads, because a command can write thousands of large
// ones that take no space.
const mostIndexed = 1 << 30

// badIndex reports whether git could write elsewhere than to the work tree because of an index in a git directory.
func (c *Classifier) badIndex(v View, dir, at string) bool {
	if c.indexed > mostIndexed {
		return true
	}
	text, ok := v.Read(at)
	c.indexed += len(text)
	if !ok {
		return true
	}
	if !strings.HasPrefix(text, gitindex.Magic) {
		return false // git does not read it
	}
	if to, ok := v.Read(path.Join(dir, "commondir")); ok {
		dir = absolute(dir, strings.TrimRight(to, "\r\n"))
	}
	config, _ := v.Read(path.Join(dir, "config"))
	return gitindex.Check(strings.NewReader(text), int64(len(text)), isSHA256(config)) != nil
}

// keyFormat is the key that says how long the names of objects are: in an index, too.
const keyFormat = "extensions.objectformat"

func isSHA256(config string) (is bool) {
	list, _ := parseConfig(config)
	for _, e := range list {
		if e.key == keyFormat {
			is = strings.EqualFold(e.value, "sha256")
		}
	}
	return is
}

// indexes reports whether a directory had an index, or one of a linked work tree.
func (c *Classifier) indexes(dir string) bool {
	return slices.ContainsFunc(c.Old.Names(dir), func(name string) bool { return isIndex(fold(name)) || fold(name) == "worktrees" })
}

// resolves reports whether the list of git rerere names files. At the next git commit, git copies these to its own
// directory. It checks neither their paths nor whether they are links.
func (c *Classifier) resolves(at string) bool {
	text, ok := c.New.Read(at)
	return !ok || text != ""
}
