//go:build linux

package overlay

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// An object is all that a program can find out about a file and that a commit has to
// bring over.
type object struct {
	Mode     uint32
	UID, GID uint32
	Size     int64  // of a regular file
	Sum      string // its content
	Text     string // of a link
	Rdev     uint64
	Mtime    int64 // nanoseconds since 1970
	Xattrs   map[string]string
	Twin     string // the first of the names that the object has in the view; "": it has one
	Shared   bool   // it has several, whatever Twin says
}

// A view is what somebody saw of one or more trees: "0" is the first root, "0/a/b"
// a file in it.
type view map[string]object

// takeView looks at the tree root. Whoever calls it can read everything. An overlay may
// show different inode numbers for the names of one file, so for an overlay upper is
// where it keeps what was written; empty: it is none.
func takeView(v view, key, root, upper string) error {
	l := looker{v, root, upper, map[tree.Inode][]string{}}
	if err := l.add(key, root); err != nil {
		return err
	}
	for _, names := range l.twins {
		if slices.Sort(names); len(names) < 2 {
			continue
		}
		for _, n := range names {
			o := v[n]
			o.Twin, o.Shared = names[0], true
			v[n] = o
		}
	}
	return nil
}

type looker struct {
	view        view
	root, upper string
	twins       map[tree.Inode][]string // the keys of files that have more than one name
}

func (l *looker) add(key, p string) error {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return fmt.Errorf("look at %q: %w", p, err)
	}
	o := object{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim.Nano()}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		o.Size = st.Size
		o.Sum = "huge"
		if st.Size <= 64<<20 {
			h, err := tree.Openat2(unix.AT_FDCWD, p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0, 0)
			if err != nil {
				return fmt.Errorf("open %q: %w", p, err)
			}
			data := make([]byte, st.Size)
			err = tree.ReadFull(h, data, 0)
			h.Close()
			if err != nil {
				return fmt.Errorf("read %q: %w", p, err)
			}
			sum := sha256.Sum256(data)
			o.Sum = string(sum[:8])
		}
	case unix.S_IFLNK:
		buf := make([]byte, 4096)
		n, err := unix.Readlink(p, buf)
		if err != nil {
			return err
		}
		o.Text = string(buf[:n])
	case unix.S_IFCHR, unix.S_IFBLK:
		o.Rdev = uint64(st.Rdev)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		id := tree.Inode{Dev: uint64(st.Dev), Ino: st.Ino}
		if l.upper != "" {
			var up unix.Stat_t
			if unix.Lstat(l.upper+strings.TrimPrefix(p, l.root), &up) == nil {
				id = tree.Inode{Dev: 0, Ino: up.Ino}
			}
		}
		l.twins[id] = append(l.twins[id], key)
	}
	if err := o.readXattrs(p); err != nil {
		return fmt.Errorf("attributes of %q: %w", p, err)
	}
	l.view[key] = o
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	d, err := tree.Openat2(unix.AT_FDCWD, p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", p, err)
	}
	names, err := d.Names()
	d.Close()
	if err != nil {
		return fmt.Errorf("list %q: %w", p, err)
	}
	for _, name := range names {
		if err := l.add(key+"/"+name, filepath.Join(p, name)); err != nil {
			return err
		}
	}
	return nil
}

// readXattrs reads what users and administrators set, marks of overlays too: those
// an overlay hides, and a project must not have got any.
func (o *object) readXattrs(p string) error {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(p, buf)
	if err == unix.EOPNOTSUPP || n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl") && name != tree.CapabilityXattr {
			continue
		}
		value := make([]byte, 4096)
		n, err := unix.Lgetxattr(p, name, value)
		if err != nil {
			return err
		}
		if o.Xattrs == nil {
			o.Xattrs = map[string]string{}
		}
		o.Xattrs[name] = string(value[:n])
	}
	return nil
}

func (o object) isDir() bool { return o.Mode&unix.S_IFMT == unix.S_IFDIR }

// what is a line about everything but the time and the twins.
func (o object) what() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%o %d:%d", o.Mode, o.UID, o.GID)
	switch o.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		fmt.Fprintf(&b, " %d bytes %x", o.Size, o.Sum)
	case unix.S_IFLNK:
		fmt.Fprintf(&b, " -> %q", o.Text)
	case unix.S_IFCHR, unix.S_IFBLK:
		fmt.Fprintf(&b, " device %x", o.Rdev)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Xattrs)) {
		fmt.Fprintf(&b, " %s=%q", name, o.Xattrs[name])
	}
	return b.String()
}

func stamp(ns int64) string { return fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9) }

// String has a line for each object, in path order, with all that is known of it.
func (v view) String() string {
	var b strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(v), paths.Compare) {
		o := v[k]
		fmt.Fprintf(&b, "%q %s", k, o.what())
		if o.Twin != "" {
			fmt.Fprintf(&b, " is %q", o.Twin)
		}
		fmt.Fprintf(&b, " at %s\n", stamp(o.Mtime))
	}
	return b.String()
}

// A compared says how two views are compared.
type compared struct {
	got, want view

	// time reports whether an object may have the time that it has. Nil: it must be
	// the wanted one.
	time func(key string, got, want object) bool

	// linked chooses the names whose links are compared. Nil: all.
	linked func(key string) bool
}

// differences lists what differs, a line each; empty: nothing.
func (c compared) differences() []string {
	var list []string
	say := func(key, format string, args ...any) {
		list = append(list, fmt.Sprintf("%q ", key)+fmt.Sprintf(format, args...))
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.want), paths.Compare) {
		w := c.want[k]
		g, ok := c.got[k]
		switch {
		case !ok:
			say(k, "is missing: %s", w.what())
		case g.what() != w.what():
			say(k, "is  %s\n\twant %s", g.what(), w.what())
		case g.Mtime == w.Mtime:
		case c.time == nil || !c.time(k, g, w):
			say(k, "is of %s, want %s", stamp(g.Mtime), stamp(w.Mtime))
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.got), paths.Compare) {
		if _, ok := c.want[k]; !ok {
			say(k, "should not be there: %s", c.got[k].what())
		}
	}
	g, w := c.groups(c.got), c.groups(c.want)
	for _, k := range slices.SortedFunc(maps.Keys(w), paths.Compare) {
		if _, there := c.got[k]; there && g[k] != w[k] {
			say(k, "is linked to %q, want %q", g[k], w[k])
		}
	}
	return list
}

// groups gives each of the names that are compared the first one of its group.
func (c compared) groups(v view) map[string]string {
	first, of := map[string]string{}, map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if c.linked != nil && !c.linked(k) {
			continue
		}
		of[k] = k
		if t := v[k].Twin; t != "" {
			if _, ok := first[t]; !ok {
				first[t] = k
			}
			of[k] = first[t]
		}
	}
	return of
}

// unlinked is the view without what it says of links.
func (v view) unlinked() view {
	v = maps.Clone(v)
	for k, o := range v {
		o.Twin = ""
		v[k] = o
	}
	return v
}

// joined is the view in which two names, and all that is linked to them, are one file.
func (v view) joined(a, b string) view {
	into, from := cmp.Or(v[a].Twin, a), cmp.Or(v[b].Twin, b)
	v = maps.Clone(v)
	for k, o := range v {
		if t := cmp.Or(o.Twin, k); t == into || t == from {
			o.Twin = into
			v[k] = o
		}
	}
	return v
}

// key is the name of a path of a root in a view.
func key(root int, p string) string { return path.Join(strconv.Itoa(root), p) }

// A changeSet is the result of Changes. It is used to compare what a commit of all of it makes with what the sandbox
// saw.
type changeSet struct {
	lines   []string        // as they are printed
	keys    []string        // of them
	changed map[string]bool // by key
	around  map[string]bool // directories in which a name was made, replaced or removed
}

func (s *Session) changeSet() (changeSet, error) {
	c := changeSet{changed: map[string]bool{}, around: map[string]bool{}}
	for n, err := range s.Changes() {
		if err != nil {
			return c, err
		}
		c.lines = append(c.lines, n.String())
		for i, r := range s.roots {
			if r.Path == n.Root {
				k := key(i, n.Path)
				c.keys = append(c.keys, k)
				c.changed[k] = true
				if n.Path != "." && !(n.Kind == Modified && n.Mode.IsDir()) {
					c.around[path.Dir(k)] = true
				}
			}
		}
	}
	return c, nil
}

// below reports whether there is a change at a key or below it.
func (c changeSet) below(k string) bool {
	return slices.ContainsFunc(c.keys, func(have string) bool { return tree.Under(have, k) })
}

// committed compares a project with what the sandbox saw of it. It compares links between names that were committed. A
// new time alone is not a change: unless all names were committed at once, the project may have kept its own time where
// nothing else changed. All names of one file in the project still have one time.
//
// Names of one file of the project are several files for the sandbox until it changes one. A name that it linked to one
// of them is linked to that one file.
func (c changeSet) committed(project, seen, before view, all bool) []string {
	first := map[[2]string]string{} // of the names that are linked before and after
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		id := [2]string{before[k].Twin, project[k].Twin}
		if c.changed[k] || id[0] == "" || id[1] == "" {
			continue
		}
		if _, ok := first[id]; ok {
			seen = seen.joined(first[id], k)
		} else {
			first[id] = k
		}
	}
	return compared{
		got: project, want: seen,
		time: func(k string, got, want object) bool {
			switch {
			case c.changed[k] || c.around[k]:
				return false
			case project[k].Shared:
				return true
			}
			return !all && got.Mtime == before[k].Mtime
		},
		linked: func(k string) bool { return c.changed[k] },
	}.differences()
}
