//go:build linux

package losses

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// An object is what somebody sees of a file or directory.
type object struct {
	What  string // type, mode, owner, content, attributes
	Mtime int64
	Ino   uint64
	Dir   bool `json:",omitempty"`
	Many  bool `json:",omitempty"` // it has several names
}

// A view is a tree, by path.
type view map[string]object

func look(root string) (view, error) {
	v := view{}
	err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		v[rel], err = lookAt(p)
		return err
	})
	return v, err
}

func lookAt(p string) (o object, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return o, fmt.Errorf("look at %s: %w", p, err)
	}
	typ := st.Mode & unix.S_IFMT
	o = object{Mtime: st.Mtim.Nano(), Ino: st.Ino, Dir: typ == unix.S_IFDIR, Many: typ != unix.S_IFDIR && st.Nlink > 1}
	o.What = fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
	switch typ {
	case unix.S_IFREG:
		b, err := os.ReadFile(p)
		if err != nil {
			return o, err
		}
		if text := strings.ReplaceAll(string(b), "\x00", ""); len(text) < 200 {
			o.What += fmt.Sprintf(" %d %q", len(b), text)
		}
		sum := sha256.Sum256(b)
		o.What += fmt.Sprintf(" %x", sum[:6])
	case unix.S_IFLNK:
		text, err := os.Readlink(p)
		if err != nil {
			return o, err
		}
		o.What += fmt.Sprintf(" → %q", text)
	}
	names := make([]byte, 1024)
	n, err := unix.Llistxattr(p, names)
	if err != nil && err != unix.EOPNOTSUPP {
		return o, err
	}
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "trusted.overlay.") {
			continue // of marks of an overlay there must be none
		}
		b := make([]byte, 1024)
		n, err := unix.Lgetxattr(p, name, b)
		if err != nil {
			return o, err
		}
		o.What += fmt.Sprintf(" %s=%q", name, b[:n])
	}
	return o, nil
}

// groups are the names of each file with several, by the first of them.
func (v view) groups() map[string][]string {
	of := map[uint64][]string{}
	for p, o := range v {
		if o.Many {
			of[o.Ino] = append(of[o.Ino], p)
		}
	}
	all := map[string][]string{}
	for _, names := range of {
		slices.Sort(names)
		all[names[0]] = names
	}
	return all
}

// same lists what differs; when reports whether a time may.
func same(got, want view, when func(p string, got, want object) bool) (list []string) {
	for p, w := range want {
		switch g, ok := got[p]; {
		case !ok:
			list = append(list, fmt.Sprintf("%s is missing: %s", p, w.What))
		case g.What != w.What:
			list = append(list, fmt.Sprintf("%s is   %s\n\twant %s", p, g.What, w.What))
		case g.Mtime != w.Mtime && (when == nil || !when(p, g, w)):
			list = append(list, fmt.Sprintf("%s is of %d, want %d", p, g.Mtime, w.Mtime))
		}
	}
	for p, g := range got {
		if _, ok := want[p]; !ok {
			list = append(list, fmt.Sprintf("%s should not be there: %s", p, g.What))
		}
	}
	slices.Sort(list)
	return list
}

// unlinked lists links of want that got lacks.
func unlinked(got, want view) (list []string) {
	for first, names := range want.groups() {
		for _, p := range names[1:] {
			if got[p].Ino != got[first].Ino {
				list = append(list, fmt.Sprintf("%s is not linked to %s", p, first))
			}
		}
	}
	slices.Sort(list)
	return list
}

// tooLinked lists names that got has as one file, and that are one file neither in want nor, directly or by others, in
// want and base together.
func tooLinked(got, want, base view) (list []string) {
	root := map[string]string{}
	var find func(p string) string
	find = func(p string) string {
		if r, ok := root[p]; ok && r != p {
			return find(r)
		}
		return p
	}
	for _, v := range []view{want, base} {
		for first, names := range v.groups() {
			for _, p := range names {
				root[find(p)] = find(first)
			}
		}
	}
	for first, names := range got.groups() {
		for _, p := range names {
			if find(p) != find(first) {
				list = append(list, fmt.Sprintf("%s is linked to %s", p, first))
			}
		}
	}
	slices.Sort(list)
	return list
}
