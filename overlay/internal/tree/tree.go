//go:build linux

package tree

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// A Tree is one side of a root: what the session wrote, or what it was written over.
type Tree interface {
	// Top opens the root's own directory. At opens the one at a path relative to it, where
	// "." is the top. The error is unix.ENOENT, ENOTDIR or ELOOP if no directory is there.
	Top() (Dir, error)
	At(path string) (Dir, error)

	// Close closes the tree. Nothing that was opened in it may be used afterwards.
	Close()
}

// A Dir is a directory of one side of a root. Its content may be hostile, and may be swapped at any time, so everything
// that is opened is compared with what Lstat returned before.
//
// A Dir belongs to whoever opened it. What was opened below it stays valid when it is
// closed. Its methods, except park, wake and Close, may be called by several goroutines.
type Dir interface {
	Stat() (Stat, error)

	// Names lists the directory, unsorted. Whiteouts are listed.
	Names() ([]string, error)

	// Lstat looks at one name, which has no slash. Deleted names are whiteouts
	// (Stat.IsWhiteout) in a layer that lies over others, and missing everywhere else.
	Lstat(name string) (st Stat, found bool, err error)

	// Dir opens the directory name, and File the regular file. The error is ErrMoved if it
	// is another object than want, or of another type.
	Dir(name string, want Stat) (Dir, error)
	File(name string, want Stat) (*File, error)

	// Link returns the text of the symbolic link name.
	Link(name string, want Stat) (string, error)

	// Traits says which attributes the object name has, which want describes. It ignores
	// those of symbolic links and directories.
	Traits(name string, want Stat) (Traits, error)

	// Xattrs returns the directory's own extended attributes, those that belong to the project.
	Xattrs() (Xattrs, error)

	// opaque reports whether the directory hides those of lower layers at its path. The
	// lowest layer has no opaque directories.
	opaque() (bool, error)

	// Origin reports whether the directory was copied up from the layer below. (The kernel does not record which
	// directory that was: ovl_can_decode_fh in fs/overlayfs/util.c.)
	Origin() (bool, error)

	// park closes descriptors until wake, which fails with ErrMoved if another directory
	// is there by then. Between the two, only Close may be called.
	park()
	wake() error

	Close()
}

// Opaque reports whether a directory of an upper side is another one than what the root has at its path: that was
// removed or moved away.
func Opaque(d Dir) (bool, error) { return d.opaque() }

// An Inode tells hard links apart from copies.
type Inode struct{ Dev, Ino uint64 }

// A Twin is a name whose object in the session is equal to the project's, and has other names in the session.
type Twin struct {
	Path string
	Low  Stat
}

// A Found is an object and where it was found.
type Found struct {
	Path string // relative to the root
	Stat Stat
}

// WalkBelow calls visit for everything in the directory path of t, in path order, until visit returns false. It has one
// directory open at a time, at any depth. With an error, it returns the path of the directory.
func WalkBelow(t Tree, path string, visit func(Found) bool) (string, error) {
	todo := []Found{{path, Stat{Mode: unix.S_IFDIR}}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.Path != path && !visit(at) {
			return "", nil
		}
		if !at.Stat.IsDir() {
			continue
		}
		var err error
		if todo, err = listInto(todo, t, at.Path); err != nil {
			return at.Path, err
		}
	}
	return "", nil
}

// listInto appends the entries of a directory, the last name first.
func listInto(todo []Found, t Tree, path string) ([]Found, error) {
	d, err := t.At(path)
	if err != nil {
		return todo, err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return todo, err
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		p := JoinPath(path, name)
		if len(p) > MaxPath {
			return todo, unix.ENAMETOOLONG
		}
		st, ok, err := d.Lstat(name)
		if err != nil {
			return todo, err
		}
		if ok && !st.IsWhiteout() {
			todo = append(todo, Found{p, st})
		}
	}
	return todo, nil
}

// A File is a regular file that is open for reading. Use the Handle only for its data, because it may be a stored copy.
type File struct {
	*Handle
	st    Stat
	attrs Xattrs // for a stored copy, capabilities included
	copy  bool   // it is a stored copy, which never changes
}

// Xattrs returns the attributes of the file that belong to the project.
func (f *File) Xattrs() (Xattrs, error) {
	if f.copy {
		x := maps.Clone(f.attrs)
		delete(x, CapabilityXattr)
		return x, nil
	}
	return f.Handle.Xattrs()
}

// capability returns the file's capabilities, and whether there are any.
func (f *File) capability() (string, bool, error) {
	if f.copy {
		v, ok := f.attrs[CapabilityXattr]
		return v, ok, nil
	}
	return f.GetXattr(CapabilityXattr)
}

// Unchanged fails with ErrMoved if somebody wrote to the file after Lstat.
func (f *File) Unchanged() error {
	if f.copy {
		return nil
	}
	if st, err := f.Handle.Stat(); err != nil || !st.Same(f.st) {
		return OrMoved(err)
	}
	return nil
}

// Read reads a whole file, which st describes.
func Read(t Tree, path string, st Stat) ([]byte, error) {
	dir, name := SplitPath(path)
	d, err := t.At(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.File(name, st)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, st.Size)
	if err := ReadFull(f.Handle, data, 0); err != nil {
		return nil, err
	}
	return data, f.Unchanged()
}
