//go:build linux

package overlay

import (
	"context"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A copier makes copies of objects, one after the other, in directories that nobody
// else writes to.
type copier struct {
	ctx     context.Context
	lax     bool // an owner that cannot be given to a copy is no error
	special bool // device nodes, setuid bits and capabilities are copied too
	many    bool // files are flushed together, by the caller
	inherit bool // the directory may pass attributes on to what is made in it

	noClone map[pair]bool // between these, sharing data was tried, and is not possible
	bytes   int64
	dirs    []copiedDir
	links   map[inode]copied
	names   map[inode]int // how many names of a file were copied; nil: not wanted
	flush   flusher       // nothing with many
}

// A pair is the file system that is copied from, and the directory that is copied to.
type pair struct {
	dev uint64
	dir *handle
}

// share makes t share the data of f, and reports whether it does.
func (k *copier) share(t, f *handle, between pair) bool {
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

// copied is the first copy of a file that has several names.
type copied struct {
	dir  *handle // borrowed; what path is relative to
	path string
	ino  uint64

	nlink uint64 // of the original
}

// copiedDir is a new directory whose attributes are still to be set: its mode may forbid
// to write in it, and writing changes its time.
type copiedDir struct {
	dir    *handle // borrowed; what path is relative to
	path   string
	ino    uint64
	want   stat
	xattrs xattrs
}

func (k *copier) close() { k.flush.close() }

// object copies the object name of src, which is as st says, to dst, which is dir at
// the directory of path; only the object itself if it is a directory. It returns what the
// copy is like; a directory gets its attributes from finishDirs.
func (k *copier) object(src dir, name string, st stat, dir *handle, path string, dst *handle) (stat, error) {
	_, to := splitPath(path)
	id := inode{st.dev, st.ino}
	if _, known := k.links[id]; st.isDir() || st.nlink < 2 && !known {
		return k.one(src, name, st, dir, path, dst, to)
	}
	if k.names != nil {
		k.names[id]++
	}
	if made, ok, err := k.link(id, dst, to); ok || err != nil {
		return made, err
	}
	made, err := k.one(src, name, st, dir, path, dst, to)
	if err == nil {
		if k.links == nil {
			k.links = map[inode]copied{}
		}
		k.links[id] = copied{dir, path, made.ino, st.nlink}
	}
	return made, err
}

// one copies an object that is no further name of another.
func (k *copier) one(src dir, name string, st stat, dir *handle, path string, dst *handle, to string) (stat, error) {
	switch typ := st.typ(); typ {
	case unix.S_IFDIR:
		d, err := src.dir(name, st)
		if err != nil {
			return stat{}, err
		}
		x, err := d.xattrs()
		d.close()
		if err != nil {
			return stat{}, err
		}
		if err := dst.mkdir(to); err != nil {
			return stat{}, err
		}
		made, err := dst.lstat(to)
		if err != nil {
			return stat{}, err
		}
		k.dirs = append(k.dirs, copiedDir{dir, path, made.ino, st, x})
		made.mode = made.mode&unix.S_IFMT | st.perm()
		made.uid, made.gid = st.uid, st.gid
		return made, nil
	case unix.S_IFREG:
		return k.file(src, name, st, dir, dst, to)
	case unix.S_IFLNK:
		text, err := src.link(name, st)
		if err != nil {
			return stat{}, err
		}
		if err := unix.Symlinkat(text, int(dst.FD), to); err != nil {
			return stat{}, err
		}
		return k.finishNode(dst, to, st, nil)
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		dev := 0
		if typ == unix.S_IFCHR || typ == unix.S_IFBLK {
			if !k.special {
				return stat{}, unix.EPERM
			}
			dev = int(st.rdev)
		}
		t, err := src.traits(name, st)
		if err != nil {
			return stat{}, err
		}
		if err := unix.Mknodat(int(dst.FD), to, typ|0o600, dev); err != nil {
			return stat{}, err
		}
		return k.finishNode(dst, to, st, t.lists)
	}
	return stat{}, unix.EINVAL
}

// finishNode sets owner, mode and time of a new link, FIFO, socket or device node, and
// its access control list.
func (k *copier) finishNode(dst *handle, name string, want stat, lists xattrs) (stat, error) {
	h, err := dst.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return stat{}, err
	}
	defer h.close()
	if k.inherit && want.typ() != unix.S_IFLNK {
		err := unix.Removexattr(h.procPath(), "system.posix_acl_access")
		if err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
			return stat{}, err
		}
	}
	for name, v := range lists {
		if err := unix.Setxattr(h.procPath(), name, []byte(v), 0); err != nil {
			return stat{}, err
		}
	}
	return k.finish(h, want)
}

// finish sets time, owner and mode, in the order in which none undoes another, and
// returns what came of it.
func (k *copier) finish(h *handle, want stat) (stat, error) {
	if err := h.setMtime(want.mtime); err != nil {
		return stat{}, err
	}
	st, err := h.stat()
	if err != nil || st.typ() != want.typ() {
		return stat{}, orMoved(err)
	}
	if st.uid != want.uid || st.gid != want.gid {
		if err := h.chown(want.uid, want.gid); err != nil && !(k.lax && err == unix.EPERM) {
			return stat{}, err
		}
		if st, err = h.stat(); err != nil {
			return stat{}, err
		}
	}
	if st.perm() != want.perm() && want.typ() != unix.S_IFLNK {
		if err := h.chmod(want.perm()); err != nil {
			return stat{}, err
		}
		return h.stat()
	}
	return st, nil
}

func (k *copier) file(src dir, name string, st stat, dir, dst *handle, to string) (stat, error) {
	f, err := src.file(name, st)
	if err != nil {
		return stat{}, err
	}
	defer f.close()
	x, err := f.xattrs()
	if err != nil {
		return stat{}, err
	}
	t, err := dst.createMode(to, st.perm())
	if err != nil {
		return stat{}, err
	}
	keep := false
	defer func() {
		if !keep {
			t.close()
		}
	}()
	if st.size > 0 {
		if !k.share(t, f.handle, pair{st.dev, dir}) {
			if err := copyData(k.ctx, t, f.handle, st); err != nil {
				return stat{}, err
			}
		}
		if err := f.unchanged(); err != nil {
			return stat{}, err
		}
	}
	if len(x) > 0 || k.inherit {
		if err := t.setXattrs(x); err != nil {
			return stat{}, err
		}
	}
	made, err := k.finish(t, st)
	if err != nil {
		return stat{}, err
	}
	if k.special {
		if caps, ok, err := f.capability(); err != nil {
			return stat{}, err
		} else if ok {
			if err := unix.Fsetxattr(int(t.FD), capabilityXattr, []byte(caps), 0); err != nil {
				return stat{}, err
			}
		}
	}
	k.bytes += st.size
	if !k.many {
		keep = true
		return made, k.flush.addFile(t)
	}
	return made, nil
}

// link makes a further name of a file that was copied already, and reports whether it
// did.
func (k *copier) link(id inode, dst *handle, to string) (stat, bool, error) {
	first, ok := k.links[id]
	if !ok {
		return stat{}, false, nil
	}
	st, ok, err := linkTo(first.dir, first.path, dst, to)
	if ok && st.ino != first.ino {
		return stat{}, false, errMoved
	}
	return st, ok, err
}

// linkTo makes the name to in dst for what is at path below top, and reports whether the
// file system could.
func linkTo(top *handle, path string, dst *handle, to string) (stat, bool, error) {
	dir, name := splitPath(path)
	d, err := top.open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return stat{}, false, err
	}
	defer d.close()
	if err := unix.Linkat(int(d.FD), name, int(dst.FD), to, 0); err != nil {
		if noLink(err) {
			err = nil
		}
		return stat{}, false, err
	}
	st, err := dst.lstat(to)
	return st, err == nil, err
}

// noLink reports that the file system makes no link here: a copy will do.
func noLink(err error) bool {
	return err == unix.EMLINK || err == unix.EPERM || err == unix.EXDEV || err == unix.EOPNOTSUPP
}

// finishDirs gives the directories that were made their attributes, the innermost
// first.
func (k *copier) finishDirs() error {
	for i := len(k.dirs) - 1; i >= 0; i-- {
		m := k.dirs[i]
		err := func() error {
			d, err := m.dir.openDir(m.path)
			if err != nil {
				return err
			}
			keep := false
			defer func() {
				if !keep {
					d.close()
				}
			}()
			st, err := d.stat()
			if err != nil || st.ino != m.ino {
				return orMoved(err)
			}
			if len(m.xattrs) > 0 || k.inherit {
				if err := d.setXattrs(m.xattrs); err != nil {
					return err
				}
			}
			if _, err := k.finish(d, m.want); err != nil {
				return err
			}
			if k.many {
				return nil
			}
			keep = true
			return k.flush.addOpen(d)
		}()
		if err != nil {
			return &fs.PathError{Op: "make", Path: m.path, Err: err}
		}
	}
	k.dirs = nil
	return nil
}

// tree copies an object and all that is in it.
func (k *copier) tree(src dir, name string, st stat, dir *handle, path string) error {
	at, _ := splitPath(path)
	dst, err := dir.open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	_, err = k.object(src, name, st, dir, path, dst)
	dst.close()
	if err != nil || !st.isDir() {
		return err
	}
	d, err := src.dir(name, st)
	if err != nil {
		return err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		p := path + "/" + n
		if len(p) > maxPath {
			return unix.ENAMETOOLONG
		}
		sub, found, err := d.lstat(n)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := k.tree(d, n, sub, dir, p); err != nil {
			return err
		}
	}
	return nil
}
