package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// secrets are the hidden secrets, each once, except those that OwnLayer hides. A second mount at a path would keep the
// overlay over the home directory from hiding it.
func (b *building) secrets() []string {
	seen := make(map[string]bool, len(b.Secrets))
	return slices.DeleteFunc(slices.Clone(b.Secrets), func(path string) bool {
		if seen[path] {
			return true
		}
		seen[path] = true
		return slices.ContainsFunc(b.owned(), func(own Own) bool { return own.Dir == path })
	})
}

// sockets are the hidden sockets: none in a session, where the copy of a socket leads nowhere, and in private
// directories only those that a folder shows.
func (b *building) sockets() (list []string) {
	for _, path := range b.Sockets {
		switch {
		case paths.InAny(path, b.roots()), slices.ContainsFunc(b.Own, func(own Own) bool { return paths.Inside(path, own.Dir) }):
		case !Private(path), paths.InAny(path, b.Folders.Direct), paths.InAny(path, b.Folders.ReadOnly):
			list = append(list, path)
		}
	}
	return list
}

// staysHidden returns an error if a command could remove the link that leads to something hidden, so that the next
// command would see it.
func (b *building) staysHidden() error {
	written := func(dir string) bool {
		return paths.InAny(dir, b.roots()) || slices.ContainsFunc(b.mounts, func(m mounts.Mount) bool {
			return m.Kind == mounts.KindBind && !m.ReadOnly && paths.Inside(dir, m.Target)
		})
	}
	for _, secret := range b.Linked {
		i := slices.IndexFunc(secret.Way, func(s Step) bool { return written(path.Dir(s.Link)) })
		if i < 0 || b.blocks(secret.Way[i].To) {
			continue
		}
		s := secret.Way[i]
		return &Error{"hide", secret.Name, fmt.Errorf("%s is a symbolic link in a directory that commands write to (try: --block %s)", escape.Quote(s.Link), escape.Command([]string{s.To}))}
	}
	return nil
}

func (b *building) blocks(path string) bool {
	return slices.ContainsFunc(slices.Concat(b.Rules, b.Paths), func(r Rule) bool {
		return r.Access == Block && slices.ContainsFunc(r.Found, func(found Found) bool { return paths.Inside(path, found.At) })
	})
}

// hideLater lets the overlay over the home directory hide existing secrets and absent names: of each, the first missing
// part.
func (b *building) hideLater() {
	b.hideInstead()
	b.showTexts()
	at := b.homeOverlay()
	if at < 0 {
		return
	}
	needed := make(map[string]bool)
	for _, m := range b.mounts {
		rel, below := strings.CutPrefix(m.Target, b.HomeAt+"/")
		for ; below && rel != "." && !needed[rel]; rel = path.Dir(rel) {
			needed[rel] = true
		}
	}
	over := &b.mounts[at]
	over.Hide = slices.Grow(over.Hide, len(b.Absent))
	for _, n := range b.Absent {
		for i := n.From; i <= len(n.Name); i++ {
			if part := n.Name[:i]; (i == len(n.Name) || n.Name[i] == '/') && !needed[part] {
				over.Hide = append(over.Hide, part)
				break
			}
		}
	}
	slices.Sort(over.Hide)
	over.Hide = slices.Compact(over.Hide)
	b.keepModes(over)
	if len(over.Hide)+len(over.Dirs)+len(over.Texts) == 0 && over.ReadOnly && !over.Temporary && !b.stacked(at) {
		b.drop(at)
	}
}

// keepModes has the directories of an overlay that contain hidden names keep their modes.
func (b *building) keepModes(over *mounts.Mount) {
	for _, p := range b.HomeModes {
		i, _ := slices.BinarySearch(over.Hide, p.Path+"/")
		if i == len(over.Hide) || !strings.HasPrefix(over.Hide[i], p.Path+"/") {
			continue
		}
		hidden := false
		for dir := p.Path; dir != "." && !hidden; dir = path.Dir(dir) {
			_, hidden = slices.BinarySearch(over.Hide, dir)
		}
		if !hidden {
			over.Perms = append(over.Perms, p)
		}
	}
}

// joinLayers makes one overlay of a home directory in which nothing is hidden and the layers over it.
func (b *building) joinLayers() {
	for i := 0; i < len(b.mounts); i++ {
		base := &b.mounts[i]
		if b.stacked(i) && len(base.Hide)+len(base.Dirs)+len(base.Files)+len(base.Texts) == 0 {
			over := &b.mounts[i+1]
			over.Lower, over.Over = slices.Concat(over.Lower, base.Lower), false
			b.drop(i)
		}
	}
}

func (b *building) stacked(i int) bool { return i+1 < len(b.mounts) && b.mounts[i+1].Over }

// showTexts shows the harmless parts of secrets.
func (b *building) showTexts() {
	for _, t := range b.Texts {
		for i := range b.mounts {
			m := &b.mounts[i]
			rel, below := strings.CutPrefix(t.Path, m.Target+"/")
			switch at := slices.Index(m.Hide, rel); {
			case m.Kind == mounts.KindBlock && m.Target == t.Path && b.from[i] == SecretLayer && b.stays(t.Path, i):
				*m = mounts.Data(t.Path, t.Data).RO()
				m.MustExist, m.Perm = true, t.Perm
			case m.Kind == mounts.KindOverlay && below && at >= 0:
				m.Hide = slices.Delete(m.Hide, at, at+1)
				m.Texts = append(m.Texts, mounts.Text{Path: rel, Data: t.Data, Perm: t.Perm})
			}
		}
	}
}

// stays reports whether the host's file at a path is seen where the i-th mount is, and nothing is mounted there after
// it, as by a rule: that takes a file with a name, which mounts.Data does not have.
func (b *building) stays(path string, i int) bool {
	g := b.ground(path)
	return g >= 0 && live(&b.mounts[g], b.from[g]) && !slices.ContainsFunc(b.mounts[i+1:], func(m mounts.Mount) bool { return m.Target == path })
}

// homeOverlay is the index of the overlay over the home directory, or negative.
func (b *building) homeOverlay() int {
	return slices.IndexFunc(b.mounts, func(m mounts.Mount) bool {
		return m.Kind == mounts.KindOverlay && m.Target == b.HomeAt && slices.Equal(m.Lower, []string{b.HomeAt})
	})
}

// hideInstead lets the sandbox's overlays omit secrets and nsrun's directories, instead of mounting something over
// them: for programs a missing file is normal, and one that they cannot open is an error. What commands create there
// themselves is in their own layer.
func (b *building) hideInstead() {
	for i := 0; i < len(b.mounts); i++ {
		m, layer := &b.mounts[i], b.from[i]
		if m.Kind != mounts.KindBlock || layer != SecretLayer && layer != OwnLayer {
			continue
		}
		name := b.firstPart(m.Target)
		g := b.ground(name)
		if layer == SecretLayer && b.emptyDir(i, g) {
			continue
		}
		if g > 0 && b.mounts[g].Over {
			g-- // of the same target
		}
		if g < 0 || g > i || b.mounts[g].Kind != mounts.KindOverlay || b.from[g] != PlaygroundLayer && b.from[g] != CacheLayer || b.mountedIn(name, i) {
			continue
		}
		b.absent = append(b.absent, Gone{m.Target, layer == OwnLayer})
		b.mounts[g].Hide = append(b.mounts[g].Hide, strings.TrimPrefix(name, b.mounts[g].Target+"/"))
		b.drop(i)
		i--
	}
}

// emptyDir shows an empty writable directory in place of the one that mount i hides, in a read-only mount g, because
// gpg and browsers need one. It reports whether it did.
func (b *building) emptyDir(i, g int) bool {
	m := &b.mounts[i]
	if g < 0 || g > i || !b.mounts[g].ReadOnly || !b.SecretDirs[m.Target] || b.mountedIn(m.Target, i) {
		return false
	}
	b.absent = append(b.absent, Gone{m.Target, false})
	*m = mounts.Tmpfs(m.Target).WithPerm(0o700)
	m.MustExist = true
	return true
}

// firstPart is the first missing part of the path of nsrun's directory, or the path: nothing else may appear on the
// way.
func (b *building) firstPart(dir string) string {
	for _, own := range b.Own {
		if own.Dir == dir && own.At != dir && paths.Inside(dir, own.At) {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dir, own.At), "/"), "/")
			return path.Join(own.At, name)
		}
	}
	return dir
}

// mountedIn reports whether a mount other than mount i is at or below a path.
func (b *building) mountedIn(name string, i int) bool {
	for j := range b.mounts {
		if j != i && b.mounts[j].Covers() && paths.Inside(b.mounts[j].Target, name) {
			return true
		}
	}
	return false
}
