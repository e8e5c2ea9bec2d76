//go:build linux

package overlay

import (
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/runslater"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// gitDir is the name of a root's own repository of git.
const gitDir = ".git"

// replaced reports whether a change is one of many that together remove a root's own repository: another one is in its
// place, or what its history consists of is gone. An automatic commit would lose the history of all work.
func (f *runsFinder) replaced(n *node) bool {
	if !tree.Under(n.Path, gitDir) {
		return false
	}
	if f.lost == nil {
		f.lost = make(map[int]bool)
	}
	lost, known := f.lost[n.root]
	if !known {
		lost = f.isLost(n.root, path.Join(n.Root, gitDir))
		f.lost[n.root] = lost
	}
	return lost
}

// isLost is replaced for a repository's directory.
func (f *runsFinder) isLost(root int, dir string) bool {
	now, old := f.c.New, f.c.Old
	if old.Kind(dir) != runslater.Directory || now.Kind(dir) != runslater.Directory {
		return false // what is removed as a whole is a change of its own
	}
	if f.isAnother(root, dir) {
		have := map[string]bool{}
		for _, name := range objects(now, dir) {
			have[name] = true
		}
		return slices.ContainsFunc(objects(old, dir), func(name string) bool { return !have[name] })
	}
	// git itself removes objects that it has put into a pack, and those that nothing leads to.
	tip := checkedOut(old, dir)
	if tip == "" {
		return false
	}
	at := path.Join(dir, "objects", tip[:2], tip[2:])
	if now.Kind(at) != runslater.Missing || now.Kind(path.Join(dir, "objects/info/alternates")) != runslater.Missing {
		return false
	}
	loose, had := old.Kind(at) != runslater.Missing, packs(old, dir)
	return !slices.ContainsFunc(packs(now, dir), func(pack string) bool {
		in, known := inPack(now, dir, pack, tip)
		return in || !known && !(loose && slices.Contains(had, pack)) // git packs loose objects into new packs
	})
}

// inPack reports whether a pack's index has an object; known is false if it is too large to be read.
func inPack(v runslater.View, dir, pack, object string) (in, known bool) {
	index := path.Join(dir, "objects/pack", strings.TrimSuffix(pack, ".pack")+".idx")
	text, ok := v.Read(index)
	if !ok {
		return false, v.Kind(index) == runslater.Missing
	}
	name, err := hex.DecodeString(object)
	return err == nil && strings.Contains(text, string(name)), true
}

// isAnother reports whether a directory was made in the place of the one that the root had.
func (f *runsFinder) isAnother(root int, dir string) bool {
	v := f.c.New.(*runsView)
	if _, err := v.tree(root); err != nil {
		v.overlook(dir, err)
		return false
	}
	d, err := f.sides[root].up.At(gitDir)
	if err != nil {
		return false // it is only in the root
	}
	defer d.Close()
	another, err := tree.Opaque(d)
	v.overlook(dir, err)
	return another
}

// objects are the names of all objects and packs of a repository.
func objects(v runslater.View, dir string) (list []string) {
	for _, two := range v.Names(path.Join(dir, "objects")) {
		if _, err := hex.DecodeString(two); err != nil || len(two) != 2 {
			continue
		}
		for _, name := range v.Names(path.Join(dir, "objects", two)) {
			list = append(list, two+name)
		}
	}
	return append(list, packs(v, dir)...)
}

func packs(v runslater.View, dir string) []string {
	return slices.DeleteFunc(v.Names(path.Join(dir, "objects/pack")), func(name string) bool { return !strings.HasSuffix(name, ".pack") })
}

// checkedOut returns the commit that is checked out. Empty: there is none, or it cannot be read.
func checkedOut(v runslater.View, dir string) string {
	text, _ := v.Read(path.Join(dir, "HEAD"))
	text = strings.TrimSpace(text)
	if ref, ok := strings.CutPrefix(text, "ref: "); ok {
		text, _ = v.Read(path.Join(dir, ref))
		if text = strings.TrimSpace(text); text == "" {
			packed, _ := v.Read(path.Join(dir, "packed-refs"))
			for line := range strings.Lines(packed) {
				if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
					text = id
				}
			}
		}
	}
	if _, err := hex.DecodeString(text); err != nil || len(text) < 40 {
		return ""
	}
	return text
}
