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

// secrets are those that are hidden, but for what OwnLayer hides.
func (b *building) secrets() []string {
	return slices.DeleteFunc(slices.Clone(b.Secrets), func(path string) bool {
		return slices.ContainsFunc(b.owned(), func(own Own) bool { return own.Dir == path })
	})
}

// sockets are those that are hidden: not in a session, where the copy of one leads nowhere; and in private places only
// what a folder shows.
func (b *building) sockets() (list []string) {
	for _, path := range b.Sockets {
		switch {
		case paths.InAny(path, b.roots()):
		case !Private(path), paths.InAny(path, b.Folders.Direct), paths.InAny(path, b.Folders.ReadOnly):
			list = append(list, path)
		}
	}
	return list
}

// staysHidden refuses to go on where what is hidden would be shown next time, because a
// command can remove the link that leads to it.
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
		return &Error{"hide", secret.Name, fmt.Errorf("%s is a symbolic link in a directory that commands write to (try: --block %s)", escape.Quote(s.Link), escape.Quote(s.To))}
	}
	return nil
}

// blocks reports whether a rule hides a path.
func (b *building) blocks(path string) bool {
	return slices.ContainsFunc(slices.Concat(b.Rules, b.Paths), func(r Rule) bool {
		return r.Access == Block && slices.ContainsFunc(r.Found, func(found Found) bool { return paths.Inside(path, found.At) })
	})
}

// hideLater has the overlay over the home directory hide names that are absent: the first part of each that is missing,
// but for those at or above what is mounted.
func (b *building) hideLater() {
	at := slices.IndexFunc(b.mounts, func(m mounts.Mount) bool {
		return m.Kind == mounts.KindOverlay && m.ReadOnly && m.Target == b.HomeAt && slices.Equal(m.Lower, []string{b.HomeAt})
	})
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
	if len(over.Hide)+len(over.Dirs) == 0 && !over.Temporary {
		b.mounts, b.from = slices.Delete(b.mounts, at, at+1), slices.Delete(b.from, at, at+1)
	}
}
