package overlay

// A dir is a directory of one side of a root: of what the session wrote, or of what
// it was written over. What is in it may be hostile, and may be swapped while it is
// looked at: everything that is opened is compared with what lstat told before.
//
// A dir belongs to whoever opened it, and is good until it is closed; what was opened
// below it stays good.
type dir interface {
	stat() (stat, error)

	// names lists the directory, unsorted. Whiteouts are listed.
	names() ([]string, error)

	// lstat looks at one name, which holds no slash. Deleted names are whiteouts
	// (stat.isWhiteout) in a layer that hides others, and missing everywhere else.
	lstat(name string) (st stat, found bool, err error)

	// dir opens the directory name, file the regular file: ErrMoved if it is another
	// object than want, or has become another type.
	dir(name string, want stat) (dir, error)
	file(name string, want stat) (*file, error)

	// link returns the text of the symbolic link name.
	link(name string, want stat) (string, error)

	// xattrs returns the directory's own extended attributes, those that belong to
	// the project.
	xattrs() (xattrs, error)

	// opaque reports whether the directory hides what lower layers have at its path.
	// A layer that lies over nothing has no opaque directories.
	opaque() (bool, error)

	close()
}

// A file is a regular file that is open for reading. Its data is read through the
// handle; whatever else is to be known of it is not asked of the handle, which may be
// open on a stored copy.
type file struct {
	*handle
	st    stat
	attrs xattrs // for a stored copy
	copy  bool   // the handle is open on a stored copy, which nobody changes
}

// xattrs returns the attributes of the file that belong to the project.
func (f *file) xattrs() (xattrs, error) {
	if f.copy {
		return f.attrs, nil
	}
	return f.handle.xattrs()
}

// capable reports whether the file has capabilities.
func (f *file) capable() (bool, error) {
	if f.copy {
		_, ok := f.attrs[capabilityXattr]
		return ok, nil
	}
	_, ok, err := f.getXattr(capabilityXattr)
	return ok, err
}

// unchanged fails with ErrMoved if somebody wrote to the file since it was looked at.
func (f *file) unchanged() error {
	if f.copy {
		return nil
	}
	if st, err := f.handle.stat(); err != nil || !st.same(f.st) {
		return orMoved(err)
	}
	return nil
}
