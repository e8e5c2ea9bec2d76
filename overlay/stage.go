package overlay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A step is one rename, or the change of one directory's attributes. A new
// directory with everything in it is one step.
type step struct {
	first, end int // the nodes it commits: nodes[first:end]
	dir, name  string
	tmp        string // where the new object waits in dir; empty: there is none
	old        string // where the object that was there is now; empty: nothing was
	done       bool

	// Of a step that changes a directory's own attributes.
	attrs    bool
	touched  bool // setting them was begun
	before   stat
	xattrs   xattrs // as they were
	newAttrs xattrs
}

func newTag() string { return randomText(8) }

func (c *commit) temp() string {
	c.seq++
	return c.tag + strconv.Itoa(c.seq)
}

// stage makes everything new under temporary names, and plans the steps. What
// can fail for want of space, rights or time fails here.
func (c *commit) stage(ctx context.Context) error {
	var top *step // of the new directory we are in
	for i, n := range c.nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := place{n.root, n.Path}
		if top != nil {
			t := c.nodes[top.first]
			if t.root == n.root && t.up.isDir() && under(n.Path, t.Path) {
				p := joinPath(top.dir, top.tmp) + strings.TrimPrefix(n.Path, t.Path)
				if err := c.make(ctx, n, place{n.root, p}); err != nil {
					return c.makeError(n, err)
				}
				top.end = i + 1
				continue
			}
		}
		top = nil
		st := &step{first: i, end: i + 1}
		st.dir, st.name = splitPath(n.Path)
		switch {
		case n.hasUp && n.hasLow && n.up.isDir() && n.low.isDir():
			st.attrs, st.name = true, n.Path
			if err := c.readAttrs(n, st); err != nil {
				return &Error{Op: "read attributes", Path: c.abs(at), Err: err}
			}
		case n.hasUp:
			st.tmp = c.temp()
		default:
			// A deletion only needs its directory to be writable.
			if _, err := c.dir(n.root, false, st.dir); err != nil {
				return &Error{Op: "open", Path: c.abs(place{n.root, st.dir}), Err: err}
			}
		}
		c.steps = append(c.steps, st)
		if st.tmp == "" {
			continue
		}
		if err := c.make(ctx, n, place{n.root, joinPath(st.dir, st.tmp)}); err != nil {
			return c.makeError(n, err)
		}
		top = st
	}
	// Modes and times of new directories last, the innermost first: a mode may
	// forbid to write in them, and writing changes the time.
	for i := len(c.made) - 1; i >= 0; i-- {
		if err := c.finishDir(c.made[i]); err != nil {
			return err
		}
	}
	if c.many {
		return c.flush()
	}
	return nil
}

func (c *commit) makeError(n node, err error) error {
	if special, ok := err.(*SpecialError); ok {
		return special
	}
	return &Error{Op: "copy", Path: c.abs(place{n.root, n.Path}), Err: err}
}

// dir returns the directory path of the project, or of the upper directory,
// ready to look names up in it and for the project to change it. It belongs to
// c and is good until the next call for the same side of the root.
func (c *commit) dir(root int, upper bool, path string) (*handle, error) {
	l := &c.layers[root]
	top, last, lastPath := l.low, &l.lastLow, &l.pathLow
	need := uint32(0o300)
	if upper {
		top, last, lastPath = l.up, &l.lastUp, &l.pathUp
		need = 0o100
	}
	if *last != nil && *lastPath == path {
		return *last, nil
	}
	(*last).close()
	*last = nil
	d, err := c.openWide(door{root, upper, path}, top, need)
	if err == unix.EACCES && !isRoot() {
		// One of the directories above may be closed to us, who own it: the
		// sandboxed command may have opened it, and closed it again.
		for i := range len(path) {
			if path[i] != '/' {
				continue
			}
			above, err := c.openWide(door{root, upper, path[:i]}, top, 0o100)
			if err != nil {
				return nil, err
			}
			above.close()
		}
		d, err = c.openWide(door{root, upper, path}, top, need)
	}
	if err != nil {
		return nil, err
	}
	*last, *lastPath = d, path
	return d, nil
}

// A door is a directory on one side of a root.
type door struct {
	root  int
	upper bool
	path  string
}

// widened is what relock makes of a door.
type widened struct {
	ino  uint64
	mode uint32
}

// openWide opens a directory for looking names up, and makes sure that its owner
// may do with it what need says, until relock.
func (c *commit) openWide(at door, top *handle, need uint32) (*handle, error) {
	d, err := top.open(at.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	st, err := d.stat()
	if err != nil {
		d.close()
		return nil, err
	}
	if p := (place{at.root, at.path}); !at.upper && !strings.Contains(at.path, c.tag) && !c.changed(p, st) {
		c.ours[p] = true
	}
	if !isRoot() && st.owned() && st.perm()&need != need {
		if err := d.chmod(st.perm() | 0o700); err != nil {
			d.close()
			return nil, err
		}
		if _, ok := c.widened[at]; !ok {
			c.widened[at] = widened{st.ino, st.perm()}
		}
	}
	return d, nil
}

// setMode gives the directory d a mode for good: at once, or if that would close
// it to us, when relock is called.
func (c *commit) setMode(at door, d *handle, st stat, mode uint32) error {
	now := mode
	if !isRoot() && st.owned() && mode&0o700 != 0o700 {
		now |= 0o700
		c.widened[at] = widened{st.ino, mode}
	} else {
		delete(c.widened, at)
	}
	return d.chmod(now)
}

// relock gives directories that were made accessible the modes they are to have,
// the innermost first.
func (c *commit) relock() error {
	doors := slices.SortedFunc(maps.Keys(c.widened), func(a, b door) int { return comparePaths(b.path, a.path) })
	var errs []error
	for _, at := range doors {
		w := c.widened[at]
		top := c.layers[at.root].low
		if at.upper {
			top = c.layers[at.root].up
		}
		d, err := top.open(at.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err == nil {
			var st stat
			if st, err = d.stat(); err == nil && st.ino == w.ino {
				err = d.chmod(w.mode)
			}
			d.close()
		}
		if err != nil && err != unix.ENOENT {
			errs = append(errs, &Error{Op: "restore mode of", Path: c.abs(place{at.root, at.path}), Err: err})
		}
	}
	clear(c.widened)
	return errors.Join(errs...)
}

// make makes the session's object n at a place in the project.
func (c *commit) make(ctx context.Context, n node, at place) error {
	srcDir, srcName := splitPath(n.Path)
	dstDir, dstName := splitPath(at.path)
	src, err := c.dir(n.root, true, srcDir)
	if err != nil {
		return err
	}
	dst, err := c.dir(n.root, false, dstDir)
	if err != nil {
		return err
	}
	switch typ := n.up.typ(); typ {
	case unix.S_IFDIR:
		if st, err := src.lstat(srcName); err != nil || st.ino != n.up.ino || !st.isDir() {
			return orMoved(err)
		}
		if err := unix.Mkdirat(dst.fd, dstName, 0o700); err != nil {
			return err
		}
		st, err := dst.lstat(dstName)
		if err != nil {
			return err
		}
		// What is to be set is read while the session's directory is at hand.
		x, err := c.upperXattrs(n)
		if err != nil {
			return err
		}
		c.made = append(c.made, at)
		c.dirs[at] = madeDir{st.ino, n.up, x}
		return nil
	case unix.S_IFREG:
		return c.makeFile(ctx, n, src, srcName, dst, dstName, at)
	case unix.S_IFLNK:
		text, err := readlinkOf(src, srcName, n.up)
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(text, dst.fd, dstName); err != nil {
			return err
		}
		return finishNode(dst, dstName, n.up)
	case unix.S_IFIFO, unix.S_IFSOCK:
		if err := unix.Mknodat(dst.fd, dstName, typ|0o600, 0); err != nil {
			return err
		}
		return finishNode(dst, dstName, n.up)
	}
	return unix.EINVAL // checkSpecials lets nothing else through
}

func readlinkOf(dir *handle, name string, want stat) (string, error) {
	l, err := dir.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	defer l.close()
	if st, err := l.stat(); err != nil || !st.same(want) {
		return "", orMoved(err)
	}
	return l.readlink()
}

// finishNode sets owner, mode and time of a new link, FIFO or socket.
func finishNode(dir *handle, name string, want stat) error {
	h, err := dir.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer h.close()
	st, err := h.stat()
	if err != nil || st.typ() != want.typ() || st.nlink != 1 {
		return orMoved(err)
	}
	return finish(h, st, want)
}

// finish sets owner, mode and time, in the order in which none undoes another.
func finish(h *handle, have, want stat) error {
	if have.uid != want.uid || have.gid != want.gid {
		if err := h.chown(want.uid, want.gid); err != nil {
			return err
		}
	}
	if want.typ() != unix.S_IFLNK {
		if err := h.chmod(want.perm()); err != nil {
			return err
		}
	}
	return h.setMtime(want.mtime)
}

func (c *commit) makeFile(ctx context.Context, n node, src *handle, srcName string, dst *handle, dstName string, at place) error {
	id := inode{n.up.dev, n.up.ino}
	if n.up.nlink > 1 {
		if ok, err := c.makeLink(n, id, dst, dstName); ok || err != nil {
			return err
		}
	}
	f, err := src.openFile(srcName, n.up, func(stat) error { return nil })
	if err != nil {
		return err
	}
	defer f.close()
	names, err := f.xattrNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == capabilityXattr {
			return &SpecialError{[]Special{{Root: n.Root, Path: n.Path, Mode: n.Mode, Why: "has capabilities"}}}
		}
	}
	x, err := f.xattrs()
	if err != nil {
		return err
	}
	t, err := dst.create(dstName)
	if err != nil {
		return err
	}
	defer t.close()
	if err := copyData(ctx, t, f, n.up); err != nil {
		return err
	}
	if st, err := f.stat(); err != nil || !st.same(n.up) {
		return orMoved(err)
	}
	if err := t.setXattrs(x); err != nil {
		return err
	}
	st, err := t.stat()
	if err != nil {
		return err
	}
	if err := finish(t, st, n.up); err != nil {
		return err
	}
	if n.up.nlink > 1 {
		if c.links[n.root] == nil {
			c.links[n.root] = map[inode]link{}
		}
		c.links[n.root][id] = link{at, st.ino}
	}
	if c.many {
		return nil
	}
	return t.fsync()
}

// makeLink makes a further name of a file that has one in the project already,
// and reports whether it did.
func (c *commit) makeLink(n node, id inode, dst *handle, dstName string) (bool, error) {
	low := c.layers[n.root].low
	if first, ok := c.links[n.root][id]; ok {
		dir, name := splitPath(first.at.path)
		d, err := low.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return false, err
		}
		defer d.close()
		if err := unix.Linkat(d.fd, name, dst.fd, dstName, 0); err != nil {
			if err == unix.EMLINK || err == unix.EPERM || err == unix.EXDEV || err == unix.EOPNOTSUPP {
				return false, nil // a copy will do
			}
			return false, err
		}
		if st, err := dst.lstat(dstName); err != nil || st.ino != first.ino {
			return false, orMoved(err)
		}
		return true, nil
	}
	// The other name may be a file of the project that is as it was: linking to
	// that one is what the command did. If the project has more names for it,
	// those were not linked in the sandbox.
	t, ok := c.twins[n.root][id]
	if !ok || t.low.nlink != 1 {
		return false, nil
	}
	dir, name := splitPath(t.path)
	d, err := low.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer d.close()
	if unix.Linkat(d.fd, name, dst.fd, dstName, 0) != nil {
		return false, nil
	}
	if st, err := dst.lstat(dstName); err != nil || !st.same(t.low) {
		return false, orMoved(err)
	}
	if at := (place{n.root, t.path}); !c.changed(at, t.low) {
		c.ours[at] = true
	}
	return true, nil
}

// madeDir is what finishDir needs to know of a new directory.
type madeDir struct {
	ino    uint64 // of the new directory: another one must not get its attributes
	up     stat
	xattrs xattrs
}

// upperXattrs reads the attributes of a directory of the session.
func (c *commit) upperXattrs(n node) (xattrs, error) {
	src, err := c.dir(n.root, true, n.Path)
	if err != nil {
		return nil, err
	}
	d, err := src.openDir(".")
	if err == unix.EACCES {
		var wide *handle
		if wide, err = c.openWide(door{n.root, true, n.Path}, c.layers[n.root].up, 0o500); err != nil {
			return nil, err
		}
		d, err = wide.openDir(".")
		wide.close()
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	if st, err := d.stat(); err != nil || st.ino != n.up.ino {
		return nil, orMoved(err)
	}
	return d.xattrs()
}

func (c *commit) finishDir(at place) error {
	want := c.dirs[at]
	err := func() error {
		d, err := c.layers[at.root].low.openDir(at.path)
		if err != nil {
			return err
		}
		defer d.close()
		st, err := d.stat()
		if err != nil || st.ino != want.ino {
			return orMoved(err)
		}
		if err := d.setXattrs(want.xattrs); err != nil {
			return err
		}
		if err := finish(d, st, want.up); err != nil {
			return err
		}
		if c.many {
			return nil
		}
		return d.fsync()
	}()
	if err != nil {
		return &Error{Op: "make", Path: c.abs(at), Err: err}
	}
	return nil
}

// readAttrs reads what a step changes of a directory that stays.
func (c *commit) readAttrs(n node, st *step) error {
	st.before = n.low
	if n.Path == "." {
		return nil // a root's extended attributes are not compared
	}
	var err error
	if st.newAttrs, err = c.upperXattrs(n); err != nil {
		return err
	}
	low, err := c.layers[n.root].low.openDirOrPath(n.Path)
	if err != nil {
		return err
	}
	defer low.close()
	st.xattrs, err = low.xattrs()
	return err
}

// flush waits until the roots' file systems have written what was staged.
func (c *commit) flush() error {
	seen := map[int]bool{}
	for _, n := range c.nodes {
		if seen[n.root] {
			continue
		}
		seen[n.root] = true
		d, err := c.layers[n.root].low.openDir(".")
		if err == nil {
			err = sys.Retry(func() error { return unix.Syncfs(d.fd) })
			d.close()
		}
		if err != nil {
			return &Error{Op: "flush", Path: c.s.roots[n.root].Path, Err: err}
		}
	}
	return nil
}

// dropStaged removes what is left under temporary names after undo.
func (c *commit) dropStaged() error {
	var errs []error
	for _, st := range c.steps {
		if st.tmp == "" || st.done {
			continue
		}
		root := c.nodes[st.first].root
		d, err := c.dir(root, false, st.dir)
		if err == nil {
			// Where it was never made there is nothing to say about a read-only disk.
			if _, found, lerr := d.lstatIf(st.tmp); lerr != nil || found {
				err = removeTree(d, st.tmp)
			}
		}
		if err != nil && err != unix.ENOENT {
			errs = append(errs, &Error{Op: "remove", Path: c.abs(place{root, joinPath(st.dir, st.tmp)}), Err: err})
		}
	}
	return errors.Join(errs...)
}
