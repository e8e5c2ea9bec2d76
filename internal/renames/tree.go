//go:build linux

package renames

import (
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Bounds of the work for one call. Beyond them the kernel refuses the call, with EXDEV.
const (
	maxEntries = 1 << 20
	maxDepth   = 200 // two descriptors for each level
)

// id identifies a file.
type id struct {
	major, minor uint32
	ino          uint64
}

func idOf(st *unix.Statx_t) id { return id{st.Dev_major, st.Dev_minor, st.Ino} }

// A tree is the new tree of a directory that is carried over.
type tree struct {
	move  *move
	root  sys.FD
	aside sys.FD        // a directory for names that are about to be removed
	links map[id]string // the first new path of each file with several names: an overlay copies a lower file for each name
	made  map[id]bool   // the files in the new tree
	first []firstName   // of those that links has, as far as later moves are to find them
}

// A firstName is the first new path of a file with several names.
type firstName struct {
	path string
	of   number
}

// scan returns an error if a directory cannot be carried over, before anything is done: EBUSY if something is mounted
// in it.
func (m *move) scan(p place) error {
	n := 0
	return m.scanDir(p, &n, 0)
}

func (m *move) scanDir(p place, n *int, depth int) error {
	dir, _, err := openDir(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	if depth == maxDepth {
		return errLeave
	}
	if !m.waits() {
		return unix.EINTR
	}
	return each(dir, func(p place, st *unix.Statx_t) error {
		if *n++; *n > maxEntries {
			return errLeave
		}
		if isDir(st) {
			return m.scanDir(p, n, depth+1)
		}
		return nil
	})
}

// each calls f for everything in a directory, until there is an error. If something is mounted in it, that is EBUSY.
func each(dir sys.FD, f func(p place, st *unix.Statx_t) error) error {
	names, err := sys.SomeNames(int(dir), make([]byte, 32<<10), maxEntries)
	if err == nil && len(names) > maxEntries {
		err = errLeave
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		p := place{dir, name}
		st, err := p.stat()
		switch {
		case err == unix.ENOENT:
			continue
		case err == unix.EACCES: // the caller may list the directory, but not use what is in it
			err = errLeave
		case err == nil && mounted(&st):
			err = unix.EBUSY
		case err == nil:
			err = f(p, &st)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// build fills fresh with the contents of old. at is the path of old below the directory that is carried over.
func (t *tree) build(old, fresh sys.FD, at string, depth int) error {
	switch {
	case depth == maxDepth:
		return errLeave
	case !t.move.waits():
		return unix.EINTR
	}
	return each(old, func(p place, st *unix.Statx_t) error {
		if !isDir(st) {
			return t.link(p, fresh, st, at)
		}
		sub, st2, err := openDir(p)
		if err != nil {
			return err
		}
		defer sub.Close()
		to := place{fresh, p.name}
		if err := unix.Mkdirat(int(fresh), p.name, 0o700); err != nil {
			return err
		}
		made, _, err := openDir(to)
		if err != nil {
			return err
		}
		defer made.Close()
		if err := t.build(sub, made, path.Join(at, p.name), depth+1); err != nil {
			return err
		}
		return finish(sub, made, &st2)
	})
}

// link gives a file its new name.
func (t *tree) link(p place, fresh sys.FD, st *unix.Statx_t, at string) error {
	key := idOf(st)
	from := p
	if st.Nlink > 1 {
		if other, ok := t.links[key]; ok {
			dir, err := t.dirOf(other)
			if err != nil {
				return err
			}
			from = place{dir, path.Base(other)}
			defer from.dir.Close()
		} else {
			t.links[key] = path.Join(at, p.name)
			if t.move.seen != nil && t.move.copies.link(st, t.move.seen, place{fresh, p.name}) {
				return t.add(fresh, p.name)
			}
			if len(t.first) < maxCopies {
				t.first = append(t.first, firstName{t.links[key], numberOf(st)})
			}
		}
	}
	switch err := unix.Linkat(int(from.dir), from.name, int(fresh), p.name, 0); err {
	case nil:
		return t.add(fresh, p.name)
	case unix.ENOENT: // somebody has removed it
		return nil
	case unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.ENOMEM, unix.EROFS:
		return err
	default: // the caller may not, or the overlay cannot copy it
		return errLeave
	}
}

// add notes that a file is in the new tree.
func (t *tree) add(fresh sys.FD, name string) error {
	st, err := place{fresh, name}.stat()
	if err == nil {
		t.made[idOf(&st)] = true
	}
	return err
}

// dirOf opens the directory of a path in the new tree.
func (t *tree) dirOf(name string) (sys.FD, error) {
	dir, err := sys.Openat2(int(t.root), path.Dir(name), asDir, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if err != nil {
		return sys.None, err
	}
	return sys.FD(dir), nil
}

// remember notes where copies of files with several names are, once the new tree is in place: other names of these
// files can be moved or linked later.
func (t *tree) remember() {
	if t.move.seen == nil {
		return
	}
	for _, f := range t.first {
		if dir, err := t.dirOf(f.path); err == nil {
			t.move.copies.add(f.of, t.move.seen, place{dir, path.Base(f.path)})
			dir.Close()
		}
	}
}

// finish gives a new directory the attributes, owner, mode and times of the old one. It reads the directory first: the
// overlay has marked it while files were linked into it, and removes the mark at the first read, which changes ctime.
// If that happened while tar(1) reads the directory, tar would fail ("file changed as we read it").
func finish(old, fresh sys.FD, st *unix.Statx_t) error {
	if _, err := sys.SomeNames(int(fresh), make([]byte, 4<<10), 0); err != nil {
		return err
	}
	if err := copyAttributes(old, fresh); err != nil {
		return err
	}
	if err := unix.Fchown(int(fresh), int(st.Uid), int(st.Gid)); err != nil {
		return errLeave
	}
	if err := sys.Chmod(int(fresh), uint32(st.Mode)&0o7777); err != nil {
		return err
	}
	times := []unix.Timespec{{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)}, {Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)}}
	return sys.SetTimes(int(fresh), times)
}

// copyAttributes gives a directory the extended attributes of another one, with its access control lists.
func copyAttributes(from, to sys.FD) error {
	want, err := attributes(from)
	if err != nil {
		return err
	}
	have, err := attributes(to)
	if err != nil {
		return err
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			if err := unix.Fremovexattr(int(to), name); err != nil && err != unix.ENODATA {
				return errLeave
			}
		}
	}
	for name, value := range want {
		if h, ok := have[name]; ok && h == value {
			continue
		}
		if err := unix.Fsetxattr(int(to), name, []byte(value), 0); err != nil {
			if err == unix.ENOSPC || err == unix.EDQUOT {
				return err
			}
			return errLeave
		}
	}
	return nil
}

// attributes returns the extended attributes of a directory that this process can see.
func attributes(fd sys.FD) (map[string]string, error) {
	list := make([]byte, 64<<10) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(int(fd), list)
	if err == unix.EOPNOTSUPP || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	value := make([]byte, 64<<10) // XATTR_SIZE_MAX
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		k, err := unix.Fgetxattr(int(fd), name, value)
		switch err {
		case nil:
			all[name] = string(value[:k])
		case unix.ENODATA, unix.EOPNOTSUPP:
		default:
			return nil, err
		}
	}
	return all, nil
}

// clear removes the old names of files that have a new name, at the same path below fresh. A file without a new name,
// which somebody made or replaced meanwhile, gets one. If somebody has made something at the new name too, both stay.
// What cannot be removed stays.
func (t *tree) clear(old, fresh sys.FD, st *unix.Statx_t, depth int) {
	if depth > maxDepth {
		return
	}
	if st.Mode&0o700 != 0o700 {
		_ = sys.Chmod(int(old), uint32(st.Mode)&0o7777|0o700)
	}
	_ = each(old, func(p place, st *unix.Statx_t) error {
		to := place{fresh, p.name}
		now, err := to.stat()
		_, other := t.links[idOf(st)]
		switch {
		case err == unix.ENOENT:
			_ = rename(p, to, unix.RENAME_NOREPLACE)
		case err != nil:
		case isDir(st) && isDir(&now):
			t.clearDir(p, to, depth)
		case isDir(st):
		case linked(st, &now) || other && st.Nlink > 1:
			t.remove(p, to, st)
		default:
			t.remove(p, to, nil)
		}
		return nil
	})
}

// remove removes the old name of a file that has a new one. With a nil file, somebody has put something else at the old
// name, and that gets the new name. Others can change the old name at any moment, so it is first moved aside, and
// checked there. If the file has several names, the overlay may copy it only then, and give it another inode number: an
// open descriptor shows the number that it has.
func (t *tree) remove(p, to place, file *unix.Statx_t) {
	aside := place{t.aside, p.name}
	is := func() bool { return file != nil && aside.is(file) }
	if file != nil && file.Nlink > 1 {
		held, ok := p.hold(file)
		defer held.Close()
		is = func() bool { return ok && aside.isOf(held) }
	}
	if rename(p, aside, unix.RENAME_NOREPLACE) != nil {
		return
	}
	if is() || t.supersede(aside, to) {
		_ = aside.unlink()
		return
	}
	_ = rename(aside, p, unix.RENAME_NOREPLACE)
}

// supersede exchanges the file that is aside with the one that was made at a new name. Others can change the new name
// at any moment, so it is checked what comes back.
func (t *tree) supersede(aside, to place) bool {
	if now, err := to.stat(); err != nil || !t.made[idOf(&now)] || rename(aside, to, unix.RENAME_EXCHANGE) != nil {
		return false
	}
	back, err := aside.stat()
	if err == nil && t.made[idOf(&back)] {
		return true
	}
	_ = rename(aside, to, unix.RENAME_EXCHANGE)
	return false
}

// clearDir is clear for a directory in another one, which is removed.
func (t *tree) clearDir(p, to place, depth int) {
	old, st, err := openDir(p)
	if err != nil {
		return
	}
	defer old.Close()
	fresh, _, err := openDir(to)
	if err != nil {
		return
	}
	defer fresh.Close()
	t.clear(old, fresh, &st, depth+1)
	_ = p.rmdir()
}

// discard removes everything in a directory of the new tree.
func discard(dir sys.FD, depth int) error {
	_ = sys.Chmod(int(dir), 0o700)
	return each(dir, func(p place, st *unix.Statx_t) error {
		if !isDir(st) {
			return unix.Unlinkat(int(dir), p.name, 0)
		}
		sub, _, err := openDir(p)
		if err != nil || depth > maxDepth {
			return syscall.EBUSY
		}
		defer sub.Close()
		if err := discard(sub, depth+1); err != nil {
			return err
		}
		return p.rmdir()
	})
}
