//go:build linux

package renames

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// Prefix begins the temporary names. If this process is killed, such names can be left.
const Prefix = ".nsrun-moving-"

// errLeave means that the kernel carries out the call, and refuses it with EXDEV.
var errLeave = errors.New("to be left to the kernel")

// A place is a name in an open directory.
type place struct {
	dir  sys.FD
	name string
}

// A move is a rename of a directory.
type move struct {
	from, to place
	flags    uint32
	waits    func() bool // whether the caller still waits
	by       *rights     // the caller's; nil: this process's
	seen     *caller     // whose paths copies has; nil: none
	copies   *copies     // of linked files
}

func (m *move) close() {
	m.from.dir.Close()
	m.to.dir.Close()
	if m.seen != nil {
		m.seen.close()
	}
}

// stat looks at a name. The kernel must tell whether that is the root of a mount (Linux 5.8).
func (p place) stat() (unix.Statx_t, error) {
	return statx(p.dir, p.name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
}

func statx(dir sys.FD, name string, flags int) (st unix.Statx_t, err error) {
	err = sys.Statx(int(dir), name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		err = errLeave
	}
	return st, err
}

// free returns an error unless a name is not a mount point. It can never become one, see doc.go. An error of the call,
// such as EACCES, is what the command gets.
func (p place) free() error {
	st, err := p.stat()
	switch {
	case err == unix.ENOENT:
		return nil
	case err == errLeave || err == nil && mounted(&st):
		return unix.EBUSY
	}
	return err
}

func mounted(st *unix.Statx_t) bool { return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 }

func isDir(st *unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// sameFile reports whether two names are of one file.
func sameFile(a, b *unix.Statx_t) bool {
	return a.Ino == b.Ino && a.Dev_major == b.Dev_major && a.Dev_minor == b.Dev_minor
}

// linked reports whether two names are links to one file. An overlay can show different inode numbers for them. Then it
// compares what the kernel changes for all names of a file, and nobody can choose.
func linked(a, b *unix.Statx_t) bool {
	return sameFile(a, b) || a.Nlink > 1 && a.Nlink == b.Nlink && a.Mode == b.Mode && a.Size == b.Size && a.Ctime == b.Ctime && a.Btime == b.Btime
}

// same reports whether two descriptors are of one directory, on one mount.
func same(a, b sys.FD) bool {
	var st [2]unix.Statx_t
	for i, fd := range [...]sys.FD{a, b} {
		if sys.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &st[i]) != nil {
			return false
		}
	}
	return sameFile(&st[0], &st[1]) && st[0].Mnt_id == st[1].Mnt_id
}

// rename is renameat2(2), for names that are not mount points.
func rename(from, to place, flags uint32) error {
	for _, p := range [...]place{from, to} {
		if err := p.free(); err != nil {
			return err
		}
	}
	return sys.Renameat2(int(from.dir), from.name, int(to.dir), to.name, uint(flags))
}

// kernel makes the call.
func (m *move) kernel() error { return rename(m.from, m.to, m.flags) }

// rename makes the call. It reports whether that is about a file with several names, and keeps them together.
func (m *move) rename(s *caller, c *copies) (file bool, err error) {
	before, err := m.from.stat()
	if err != nil || m.flags&unix.RENAME_EXCHANGE != 0 || isDir(&before) || before.Nlink < 2 || mounted(&before) || !m.overlay() {
		return false, m.kernel()
	}
	m.unite(&before, s, c)
	if err = m.kernel(); err == nil {
		c.add(numberOf(&before), s, m.to)
	}
	return true, err
}

// overlay reports whether both names are in one mount of an overlay.
func (m *move) overlay() bool {
	_, overlay := m.mounts()
	return overlay
}

// mounts reports whether both names are in one mount, and whether that is one of an overlay.
func (m *move) mounts() (one, overlay bool) {
	var fs unix.Statfs_t
	var st [2]unix.Statx_t
	for i, p := range [...]place{m.from, m.to} {
		if sys.Statx(int(p.dir), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st[i]) != nil || st[i].Mask&unix.STATX_MNT_ID == 0 {
			return false, false
		}
	}
	if st[0].Mnt_id != st[1].Mnt_id {
		return false, false
	}
	return true, unix.Fstatfs(int(m.from.dir), &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// carry does what the kernel refuses with EXDEV, unless the kernel does it now.
func (m *move) carry() error {
	switch err := m.kernel(); {
	case err == nil:
		return nil
	case err != unix.EXDEV:
		return errLeave
	case m.flags&unix.RENAME_EXCHANGE != 0:
		return m.exchange()
	}
	return m.shift(m.from, m.to, m.flags)
}

// exchange exchanges two names, at least one of which is a directory that the kernel does not rename. In between, one
// of them has a temporary name.
func (m *move) exchange() error {
	for _, p := range [...]place{m.from, m.to} { // before anything is done
		st, err := p.stat()
		if err == nil && isDir(&st) {
			err = m.scan(p)
		}
		if err != nil {
			return err
		}
	}
	aside := place{m.to.dir, temporary()}
	if err := m.shift(m.from, aside, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	waits := m.waits
	m.waits = func() bool { return true } // there is no way back but to the end
	defer func() { m.waits = waits }()
	err := m.shift(m.to, m.from, unix.RENAME_NOREPLACE)
	if err != nil {
		_ = rename(aside, m.from, unix.RENAME_NOREPLACE)
		return err
	}
	return rename(aside, m.to, unix.RENAME_NOREPLACE)
}

func temporary() string { return Prefix + sys.RandomText(12) }

// shift renames something, by the kernel if possible.
func (m *move) shift(from, to place, flags uint32) error {
	if err := rename(from, to, flags); err != unix.EXDEV {
		return err
	}
	old, st, err := openDir(from)
	if err != nil {
		return err
	}
	defer old.Close()
	if err := empty(to); err != nil {
		return err
	}
	if err := m.scan(from); err != nil {
		return err
	}
	made, fresh, err := to.makeDir()
	if err != nil {
		return err
	}
	defer fresh.Close()
	aside, asideDir, err := to.makeDir()
	if err != nil {
		_ = made.rmdir()
		return err
	}
	defer func() {
		asideDir.Close()
		_ = aside.rmdir()
	}()
	t := tree{move: m, root: fresh, aside: asideDir, links: map[id]string{}, made: map[id]bool{}}
	if err = t.build(old, fresh, "", 0); err == nil {
		err = finish(old, fresh, &st)
	}
	if err == nil && !m.waits() {
		err = unix.EINTR // nobody gets it
	}
	if err == nil && !from.is(&st) {
		err = errLeave
	}
	if err == nil {
		err = rename(made, to, flags)
	}
	if err != nil {
		_ = discard(fresh, 0)
		_ = made.rmdir()
		return err
	}
	t.remember()
	t.clear(old, fresh, &st, 0)
	if err := from.rmdir(); err != nil && err != unix.ENOENT {
		t.clear(old, fresh, &st, 0)
		_ = from.rmdir() // somebody makes files there all the time: it is a new directory
	}
	return nil
}

// makeDir makes a directory with a temporary name beside p.
func (p place) makeDir() (made place, dir sys.FD, err error) {
	made = place{p.dir, temporary()}
	if err := unix.Mkdirat(int(made.dir), made.name, 0o700); err != nil {
		return made, sys.None, err
	}
	if dir, _, err = openDir(made); err != nil {
		_ = made.rmdir()
	}
	return made, dir, err
}

// is reports whether a place still has this file.
func (p place) is(st *unix.Statx_t) bool {
	now, err := p.stat()
	return err == nil && sameFile(&now, st)
}

// rmdir removes a directory.
func (p place) rmdir() error {
	if err := p.free(); err != nil {
		return err
	}
	return unix.Unlinkat(int(p.dir), p.name, unix.AT_REMOVEDIR)
}

// openDir opens a directory, and returns its stat. If it is a mount point, the error is EBUSY.
func openDir(p place) (fd sys.FD, st unix.Statx_t, err error) {
	const how = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV
	n, err := sys.Openat2(int(p.dir), p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, how)
	switch err {
	case nil:
	case unix.EXDEV:
		return sys.None, st, unix.EBUSY
	case unix.EACCES, unix.EMFILE, unix.ENFILE:
		return sys.None, st, errLeave // the caller could not copy it either
	default:
		return sys.None, st, err
	}
	fd = sys.FD(n)
	if st, err = statx(fd, "", unix.AT_EMPTY_PATH); err != nil { // "." takes permission to search it
		fd.Close()
	}
	return fd, st, err
}

// empty returns an error unless a place has nothing or an empty directory.
func empty(p place) error {
	fd, _, err := openDir(p)
	if err != nil {
		if err == unix.ENOENT {
			return nil
		}
		return err
	}
	defer fd.Close()
	names, err := sys.Names(int(fd), make([]byte, 4096))
	if err == nil && len(names) > 0 {
		err = unix.ENOTEMPTY
	}
	return err
}
