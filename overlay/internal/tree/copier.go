//go:build linux

package tree

import (
	"context"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A Copier makes copies of objects, one after the other, in directories that nobody else writes to.
type Copier struct {
	Ctx     context.Context
	Lax     bool // it is no error if a copy cannot get the owner
	Special bool // copy device nodes, setuid bits and capabilities, too
	Many    bool // the caller flushes the whole file system
	Inherit bool // new objects may inherit attributes from their directory
	Project bool // copies are for a project, whose file system may have no users' attributes

	// Unlike are the new directories that FinishDirs could not give their mode and owner: some file systems have modes
	// and owners of their own, and ignore others.
	Unlike []Unlike

	noClone map[pair]bool // between these, data cannot be shared
	Bytes   int64
	dirs    []copiedDir
	Links   map[Inode]Copied
	Names   map[Inode]int // how many names of a file were copied; nil: not wanted
	Flush   Flusher       // empty with Many
}

// A pair is the file system that is copied from, and the directory that is copied to.
type pair struct {
	dev uint64
	dir *Handle
}

// share makes t share the data of f, and reports whether that was possible.
func (k *Copier) share(t, f *Handle, between pair) bool {
	if k.noClone[between] {
		return false
	}
	err := sys.Retry(func() error { return unix.IoctlFileClone(int(t.FD), int(f.FD)) })
	if err == unix.EOPNOTSUPP || err == unix.EXDEV || err == unix.ENOTTY {
		if k.noClone == nil {
			k.noClone = map[pair]bool{}
		}
		k.noClone[between] = true
	}
	return err == nil
}

// Copied is the first copy of a file that has several names.
type Copied struct {
	Dir  *Handle // borrowed
	Path string  // relative to Dir
	Ino  uint64

	Nlink uint64 // of the original
}

// Unlike is what a file system made of the new directory at a path, relative to Dir.
type Unlike struct {
	Dir  *Handle // borrowed
	Path string
	Made Stat
}

// copiedDir is a new directory that gets its attributes later: its mode may forbid
// writing, and writing changes its time.
type copiedDir struct {
	dir    *Handle // borrowed
	path   string  // relative to dir
	ino    uint64
	want   Stat
	xattrs Xattrs
}

func (k *Copier) Close() { k.Flush.Close() }

// Object copies the object name of src, which st describes, to path, relative to dir. dst is the directory of path. Of
// a directory it makes only the directory itself, which gets its attributes from FinishDirs. It returns the copy.
func (k *Copier) Object(src Dir, name string, st Stat, dir *Handle, path string, dst *Handle) (Stat, error) {
	_, to := SplitPath(path)
	id := Inode{st.Dev, st.Ino}
	if _, known := k.Links[id]; st.IsDir() || st.Nlink < 2 && !known {
		return k.one(src, name, st, dir, path, dst, to)
	}
	if k.Names != nil {
		k.Names[id]++
	}
	if made, ok, err := k.Link(id, dst, to); ok || err != nil {
		return made, err
	}
	made, err := k.one(src, name, st, dir, path, dst, to)
	if err == nil {
		if k.Links == nil {
			k.Links = map[Inode]Copied{}
		}
		k.Links[id] = Copied{dir, path, made.Ino, st.Nlink}
	}
	return made, err
}

// one copies an object that is not another name of an earlier one.
func (k *Copier) one(src Dir, name string, st Stat, dir *Handle, path string, dst *Handle, to string) (Stat, error) {
	switch typ := st.Typ(); typ {
	case unix.S_IFDIR:
		d, err := src.Dir(name, st)
		if err != nil {
			return Stat{}, err
		}
		x, err := d.Xattrs()
		d.Close()
		if err != nil {
			return Stat{}, err
		}
		if err := dst.Mkdir(to); err != nil {
			return Stat{}, err
		}
		made, err := dst.Lstat(to)
		if err != nil {
			return Stat{}, err
		}
		k.dirs = append(k.dirs, copiedDir{dir, path, made.Ino, st, x})
		made.Mode = made.Mode&unix.S_IFMT | st.Perm()
		made.UID, made.GID = st.UID, st.GID
		return made, nil
	case unix.S_IFREG:
		return k.File(src, name, st, dir, dst, to)
	case unix.S_IFLNK:
		text, err := src.Link(name, st)
		if err != nil {
			return Stat{}, err
		}
		err = unix.Symlinkat(text, int(dst.FD), to)
		if err == unix.EPERM || err == unix.ENOSYS || err == unix.EOPNOTSUPP || err == unix.EIO && dst.onFUSE() {
			err = ErrNoLinks // the directory is the caller's
		}
		if err != nil {
			return Stat{}, err
		}
		return k.finishNode(dst, to, st, nil)
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		dev := 0
		if typ == unix.S_IFCHR || typ == unix.S_IFBLK {
			if !k.Special {
				return Stat{}, unix.EPERM
			}
			dev = int(st.Rdev)
		}
		t, err := src.Traits(name, st)
		if err != nil {
			return Stat{}, err
		}
		if err := unix.Mknodat(int(dst.FD), to, typ|0o600, dev); err != nil {
			return Stat{}, err
		}
		return k.finishNode(dst, to, st, t.Lists)
	}
	return Stat{}, unix.EINVAL
}

// finishNode sets the owner, mode, time and access control list of a new symbolic link, FIFO, socket or device node.
func (k *Copier) finishNode(dst *Handle, name string, want Stat, lists Xattrs) (Stat, error) {
	h, err := dst.Open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return Stat{}, err
	}
	defer h.Close()
	if k.Inherit && want.Typ() != unix.S_IFLNK {
		err := unix.Removexattr(h.ProcPath(), "system.posix_acl_access")
		if err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
			return Stat{}, err
		}
	}
	for name, v := range lists {
		if err := unix.Setxattr(h.ProcPath(), name, []byte(v), 0); err != nil {
			return Stat{}, err
		}
	}
	// Some file systems of FUSE, such as sshfs, would change what the link leads to, in the project or elsewhere.
	if want.Typ() == unix.S_IFLNK && want.ofCaller() && dst.onFUSE() {
		return h.Stat()
	}
	return k.Finish(h, want)
}

// Finish sets time, owner and mode, in an order in which none undoes another, and returns the result. A file system
// that refuses the caller's own ids has owners of its own, as a FAT or a share has: then the object keeps the owner
// that any program's new files have there.
func (k *Copier) Finish(h *Handle, want Stat) (Stat, error) {
	if err := h.SetMtime(want.Mtime); err != nil {
		return Stat{}, err
	}
	st, err := h.Stat()
	if err != nil || st.Typ() != want.Typ() {
		return Stat{}, OrMoved(err)
	}
	if st.UID != want.UID || st.GID != want.GID {
		err := h.SetOwner(want.UID, want.GID)
		if _, refused := err.(*OwnerError); err != nil && !(refused && (k.Lax || want.ofCaller())) {
			return Stat{}, err
		}
		if st, err = h.Stat(); err != nil {
			return Stat{}, err
		}
	}
	if st.Perm() != want.Perm() && want.Typ() != unix.S_IFLNK {
		if err := h.Chmod(want.Perm()); err != nil {
			return Stat{}, err
		}
		return h.Stat()
	}
	return st, nil
}

func (k *Copier) setXattrs(h *Handle, x Xattrs) error {
	if k.Project {
		return h.GiveXattrs(x)
	}
	return h.SetXattrs(x)
}

func (k *Copier) File(src Dir, name string, st Stat, dir, dst *Handle, to string) (Stat, error) {
	f, err := src.File(name, st)
	if err != nil {
		return Stat{}, err
	}
	defer f.Close()
	x, err := f.Xattrs()
	if err != nil {
		return Stat{}, err
	}
	t, err := dst.createMode(to, st.Perm())
	if err != nil {
		return Stat{}, err
	}
	keep := false
	defer func() {
		if !keep {
			t.Close()
		}
	}()
	if st.Size > 0 {
		if !k.share(t, f.Handle, pair{st.Dev, dir}) {
			if err := copyData(k.Ctx, t, f.Handle, st); err != nil {
				return Stat{}, err
			}
		}
		if err := f.Unchanged(); err != nil {
			return Stat{}, err
		}
	}
	if len(x) > 0 || k.Inherit {
		if err := k.setXattrs(t, x); err != nil {
			return Stat{}, err
		}
	}
	made, err := k.Finish(t, st)
	if err != nil {
		return Stat{}, err
	}
	if k.Special {
		if caps, ok, err := f.capability(); err != nil {
			return Stat{}, err
		} else if ok {
			if err := unix.Fsetxattr(int(t.FD), CapabilityXattr, []byte(caps), 0); err != nil {
				return Stat{}, err
			}
		}
	}
	k.Bytes += st.Size
	if !k.Many {
		keep = true
		return made, k.Flush.AddFile(t)
	}
	return made, nil
}

// Link makes another name of a file that was copied already, and reports whether it did.
func (k *Copier) Link(id Inode, dst *Handle, to string) (Stat, bool, error) {
	first, ok := k.Links[id]
	if !ok {
		return Stat{}, false, nil
	}
	st, ok, err := LinkTo(first.Dir, first.Path, dst, to)
	if ok && st.Ino != first.Ino {
		// Some file systems of FUSE show each name of a file as a file of its own.
		if one, err := first.Dir.Lstat(first.Path); err != nil || one.Size != st.Size || one.Mtime != st.Mtime || one.Mode != st.Mode {
			return Stat{}, false, OrMoved(err)
		}
	}
	return st, ok, err
}

// LinkTo makes the name to in dst for the object at path below top. It reports whether the file system could do that.
func LinkTo(top *Handle, path string, dst *Handle, to string) (Stat, bool, error) {
	dir, name := SplitPath(path)
	d, err := top.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return Stat{}, false, err
	}
	defer d.Close()
	return LinkIn(d, name, dst, to)
}

// LinkIn is LinkTo for the object name in the directory d.
func LinkIn(d *Handle, name string, dst *Handle, to string) (Stat, bool, error) {
	if err := linkat(d, name, dst, to); err != nil {
		if noLink(err) || err == unix.EIO && dst.onFUSE() {
			err = nil
		}
		return Stat{}, false, err
	}
	st, err := dst.Lstat(to)
	return st, err == nil, err
}

// linkat is linkat(2), after which the kernel knows the file's attributes. File systems of FUSE answer with attributes
// that it keeps for a while, and gocryptfs with a wrong size.
func linkat(d *Handle, name string, dst *Handle, to string) error {
	err := unix.Linkat(int(d.FD), name, int(dst.FD), to, 0)
	if err == nil {
		var st unix.Statx_t // without statx(2), what the file system says has to do
		_ = sys.Statx(int(dst.FD), to, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st)
	}
	return err
}

// noLink reports that the file system cannot make a link: a copy will do.
func noLink(err error) bool {
	return err == unix.EMLINK || err == unix.EPERM || err == unix.EXDEV || err == unix.EOPNOTSUPP
}

// FinishDirs sets the attributes of new directories, the innermost first.
func (k *Copier) FinishDirs() error {
	for i := len(k.dirs) - 1; i >= 0; i-- {
		m := k.dirs[i]
		err := func() error {
			d, err := m.dir.OpenDir(m.path)
			if err != nil {
				return err
			}
			keep := false
			defer func() {
				if !keep {
					d.Close()
				}
			}()
			st, err := d.Stat()
			if err != nil || st.Ino != m.ino {
				return OrMoved(err)
			}
			if len(m.xattrs) > 0 || k.Inherit {
				if err := k.setXattrs(d, m.xattrs); err != nil {
					return err
				}
			}
			made, err := k.Finish(d, m.want)
			if err != nil {
				return err
			}
			if accessParts(made, m.want) != (Parts{}) {
				k.Unlike = append(k.Unlike, Unlike{m.dir, m.path, made})
			}
			if k.Many {
				return nil
			}
			keep = true
			return k.Flush.addOpen(d)
		}()
		if err != nil {
			return &fs.PathError{Op: "make", Path: m.path, Err: err}
		}
	}
	k.dirs = nil
	return nil
}

// Tree copies an object and everything in it.
func (k *Copier) Tree(src Dir, name string, st Stat, dir *Handle, path string) error {
	at, _ := SplitPath(path)
	dst, err := dir.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	_, err = k.Object(src, name, st, dir, path, dst)
	dst.Close()
	if err != nil || !st.IsDir() {
		return err
	}
	d, err := src.Dir(name, st)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := k.Ctx.Err(); err != nil {
			return err
		}
		p := path + "/" + n
		if len(p) > MaxPath {
			return unix.ENAMETOOLONG
		}
		sub, found, err := d.Lstat(n)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := k.Tree(d, n, sub, dir, p); err != nil {
			return err
		}
	}
	return nil
}
