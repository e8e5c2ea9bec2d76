package runslater

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
)

// A remote of git can be a directory of this host: git push executes the hooks of the repository there. In a root,
// these are held back. But a command can write to other places of this host, too: to its playground, and to the session
// itself, which keeps what a commit holds back. So a remote must not lead there, through a link or a file that names
// another git directory neither. Elsewhere a repository is the user's own, as that which git clone was told to copy.

const reasonRemote = "git finds a remote through it"

// remotes returns the values of a key that are where git finds a remote.
func (e *entry) remotes() (list []string) {
	section, sub, name := e.parts()
	switch {
	case e.bare || e.value == "":
	case (section == "remote" || section == "svn-remote" || section == "submodule") && (name == "url" || name == "pushurl"):
		list = append(list, e.value)
	case (name == "pushdefault" && section == "remote" || section == "branch" && (name == "remote" || name == "pushremote")) && strings.Contains(e.value, "/"):
		list = append(list, e.value) // else it is the name of one
	case section == "url" && (name == "insteadof" || name == "pushinsteadof"):
		list = append(list, sub)
	}
	return list
}

// local returns the path that a remote is, if it is one. ok is false if it is a part of a URL, of which a rule of
// url.*.insteadOf can make a path.
func local(url string, part bool) (p string, ok bool) {
	if rest, is := strings.CutPrefix(url, "file:"); is { // git takes a host's name for a part of the path
		rest, is = strings.CutPrefix(rest, "//")
		return "/" + rest, is && !part && !strings.Contains(rest, "%")
	}
	colon, slash := strings.IndexByte(url, ':'), strings.IndexByte(url, '/')
	if colon >= 0 && (slash < 0 || colon < slash) {
		return "", true // on another host, or a program's
	}
	return url, !part
}

// mostRemotes limits how many remotes of a configuration are looked at, because each takes the links of a path.
const mostRemotes = 200

// remote returns the first key of a new configuration with which git finds a remote where commands can write, outside
// of the roots, and that the old one does not have.
func (c *Classifier) remote(v View, at, old, now string) string {
	entries, _ := parseConfig(now)
	entries = slices.DeleteFunc(entries, func(e entry) bool { return len(e.remotes()) == 0 })
	if len(entries) == 0 {
		return ""
	}
	had, _ := parseConfig(old)
	before := make(map[entry]bool, len(had))
	for _, e := range had {
		before[e] = true
	}
	left := mostRemotes
	for _, e := range entries {
		if before[e] {
			continue
		}
		section, _, _ := e.parts()
		for _, url := range e.remotes() {
			p, ok := local(url, section == "url")
			left--
			if !ok || left < 0 || p != "" && !c.harmless(v, workTree(at), p) {
				return e.key
			}
		}
	}
	return ""
}

// workTree returns the directory to which relative remotes in a configuration are relative. Empty: unknown, as for
// those of submodules and linked work trees.
func workTree(at string) string {
	dir := path.Dir(at)
	if path.Base(dir) == ".git" {
		return path.Dir(dir)
	}
	if strings.Contains(dir, "/.git/") {
		return ""
	}
	return dir
}

// harmless reports whether nothing of a command runs later because of a remote with a name, which can be relative to
// dir: it is in a root, or would be there, or is where no command can write.
func (c *Classifier) harmless(v View, dir, name string) bool {
	p := absolute(dir, name)
	if p == "" || dir == "" && !path.IsAbs(name) || !c.plainUp(v, dir, name) {
		return false
	}
	l := &links{view: v, roots: c.Roots}
	for _, p := range [...]string{p, p + ".git"} { // as git looks for it
		end := p
		if c.inRoot(p) {
			end = resolveIn(l, "/", p[1:], func(string) {})
		}
		real, own := c.own(end)
		if own {
			return false
		}
		if !c.inRoot(end) {
			end = real // it can lead back
		}
		if c.inRoot(end) && (v.Kind(end) == Link || c.namesGitDir(v, end)) {
			return false
		}
	}
	return true
}

func (c *Classifier) inRoot(p string) bool {
	return p != "" && slices.ContainsFunc(c.Roots, func(root string) bool { return paths.Inside(p, root) })
}

func (c *Classifier) own(p string) (real string, in bool) {
	if c.Own == nil {
		return p, !c.inRoot(p)
	}
	return c.Own(p)
}

// plainUp reports whether each ".." in a name leads to the directory above, as [path.Clean] takes it: what is before it
// is no link.
func (c *Classifier) plainUp(v View, dir, name string) bool {
	at := dir
	if path.IsAbs(name) {
		at = "/"
	}
	named := false // an element of the name is before
	for e := range strings.SplitSeq(name, "/") {
		switch {
		case e == "" || e == ".":
			continue
		case e != "..":
			named = true
		case !named:
		case c.inRoot(at):
			if v.Kind(at) != Directory && !slices.Contains(c.Roots, at) {
				return false
			}
		default:
			if real, own := c.own(at); own || real != at {
				return false
			}
		}
		at = path.Join(at, e)
	}
	return true
}

// namesGitDir reports whether a file says where the git directory is.
func (c *Classifier) namesGitDir(v View, p string) bool {
	if v.Kind(p) != File {
		return false
	}
	text, ok := v.Read(p) // a larger file is no such file, but may be a bundle
	return ok && strings.HasPrefix(text, "gitdir:")
}

// leadRemotes notes where the remotes of a configuration are, and the links on the way.
func (c *Classifier) leadRemotes(at, text string) {
	entries, _ := parseConfig(text)
	left := mostRemotes
	for _, e := range entries {
		for _, url := range e.remotes() {
			p, ok := local(url, false)
			if left--; left < 0 || !ok || p == "" || !c.inRoot(absolute(workTree(at), p)) || !c.harmless(c.Old, workTree(at), p) {
				continue
			}
			if c.places == nil {
				c.places = map[string]bool{}
			}
			note := func(at string) { c.places[at] = true }
			for _, name := range [...]string{absolute(workTree(at), p), absolute(workTree(at), p+".git")} {
				if name != "" {
					note(name)
					note(resolveIn(c.oldLinks(), "/", name[1:], note))
				}
			}
		}
	}
}

// replaces reports whether a change puts another repository in the place of a remote. What is in it may change.
func (c *Classifier) replaces(ch Change) bool {
	if ch.Kind == File {
		return c.places[ch.Path] && c.namesGitDir(c.New, ch.Path)
	}
	for p := range c.places {
		if paths.Inside(p, ch.Path) {
			return true
		}
	}
	return false
}

// harmlessRemote reports whether Mercurial executes nothing because of a remote in the configuration at a path: it
// executes the hooks of a repository on this host, as git does.
func (c *Classifier) harmlessRemote(at, url string) bool {
	if scheme, _, ok := strings.Cut(url, "://"); ok {
		return scheme == "http" || scheme == "https" || scheme == "ssh"
	}
	return !strings.Contains(url, ":") && c.harmless(c.New, path.Dir(path.Dir(at)), url)
}
