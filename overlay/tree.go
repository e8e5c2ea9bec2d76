//go:build linux

package overlay

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// A tree is one side of a root: what the session wrote, or what it was written over.
type tree interface {
	// top opens the root's own directory, at the one with a path relative to it, where
	// "." is the top: unix.ENOENT, ENOTDIR or ELOOP if no directory is there.
	top() (dir, error)
	at(path string) (dir, error)

	// close gives up the tree; what was opened in it must not be used any more.
	close()
}

// A dir is a directory of one side of a root: of what the session wrote, or of what
// it was written over. What is in it may be hostile, and may be swapped while it is
// looked at: everything that is opened is compared with what lstat told before.
//
// A dir belongs to whoever opened it, and is good until it is closed; what was opened
// below it stays good. All that looks and opens may be called by several goroutines.
type dir interface {
	stat() (stat, error)

	// names lists the directory, unsorted. Whiteouts are listed.
	names() ([]string, error)

	// lstat looks at one name, which holds no slash. Deleted names are whiteouts
	// (stat.isWhiteout) in a layer that hides others, and missing everywhere else.
	lstat(name string) (st stat, found bool, err error)

	// dir opens the directory name, file the regular file: errMoved if it is another
	// object than want, or has become another type.
	dir(name string, want stat) (dir, error)
	file(name string, want stat) (*file, error)

	// link returns the text of the symbolic link name.
	link(name string, want stat) (string, error)

	// traits tells what the attributes of the object name, which is as want says, are
	// about. Those of symbolic links and directories are not looked at.
	traits(name string, want stat) (traits, error)

	// xattrs returns the directory's own extended attributes, those that belong to
	// the project.
	xattrs() (xattrs, error)

	// opaque reports whether the directory hides what lower layers have at its path.
	// A layer that lies over nothing has no opaque directories.
	opaque() (bool, error)

	// origin reports whether the directory was copied up from the layer below.
	origin() (bool, error)

	// park gives up descriptors until wake, which fails with errMoved if another
	// directory is there by then. Between the two only close may be called.
	park()
	wake() error

	close()
}

// traits are what the attributes of an object are about.
type traits struct {
	project bool // some belong to the project
	capable bool // it has capabilities
	origin  bool // it was copied up from the layer below

	// lists are the attributes that belong to the project, for FIFOs, sockets and
	// device nodes, which have access control lists only. Files are asked themselves.
	lists xattrs
}

// traitsOf sorts the names of attributes.
func traitsOf(names []string) (traits, error) {
	var t traits
	for _, name := range names {
		switch {
		case name == capabilityXattr:
			t.capable = true
		case name == overlayPrefix+"origin":
			t.origin = true
		case name == overlayPrefix+"redirect" || name == overlayPrefix+"metacopy":
			return traits{}, errLayer
		case wantedXattr(name):
			t.project = true
		}
	}
	return t, nil
}

// An inode tells hard links apart from copies.
type inode struct{ dev, ino uint64 }

// A twin is a name whose object in the session is equal to the project's, and
// has other names in the session.
type twin struct {
	path string
	low  stat
}

// A found is an object and where it was found.
type found struct {
	path string // relative to the root
	st   stat
}

// walkBelow calls visit for everything in the directory path of t, in path order,
// until visit returns false. It holds one directory open at a time, at any depth. The
// path returned with an error is that of the directory it is about.
func walkBelow(t tree, path string, visit func(found) bool) (string, error) {
	todo := []found{{path, stat{mode: unix.S_IFDIR}}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.path != path && !visit(at) {
			return "", nil
		}
		if !at.st.isDir() {
			continue
		}
		var err error
		if todo, err = listInto(todo, t, at.path); err != nil {
			return at.path, err
		}
	}
	return "", nil
}

// listInto appends what is in a directory, the last name first.
func listInto(todo []found, t tree, path string) ([]found, error) {
	d, err := t.at(path)
	if err != nil {
		return todo, err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return todo, err
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		p := joinPath(path, name)
		if len(p) > maxPath {
			return todo, unix.ENAMETOOLONG
		}
		st, ok, err := d.lstat(name)
		if err != nil {
			return todo, err
		}
		if ok && !st.isWhiteout() {
			todo = append(todo, found{p, st})
		}
	}
	return todo, nil
}

// A file is a regular file that is open for reading. Its data is read through the
// handle; whatever else is to be known of it is not asked of the handle, which may be
// open on a stored copy.
type file struct {
	*handle
	st    stat
	attrs xattrs // for a stored copy, capabilities included
	copy  bool   // the handle is open on a stored copy, which nobody changes
}

// xattrs returns the attributes of the file that belong to the project.
func (f *file) xattrs() (xattrs, error) {
	if f.copy {
		x := maps.Clone(f.attrs)
		delete(x, capabilityXattr)
		return x, nil
	}
	return f.handle.xattrs()
}

// capability returns the capabilities that the file gives to whoever executes it, and
// whether there are any.
func (f *file) capability() (string, bool, error) {
	if f.copy {
		v, ok := f.attrs[capabilityXattr]
		return v, ok, nil
	}
	return f.getXattr(capabilityXattr)
}

// unchanged fails with errMoved if somebody wrote to the file since it was looked at.
func (f *file) unchanged() error {
	if f.copy {
		return nil
	}
	if st, err := f.handle.stat(); err != nil || !st.same(f.st) {
		return orMoved(err)
	}
	return nil
}
