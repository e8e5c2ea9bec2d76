//go:build linux

package overlay

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// beneath is how everything below a root or a session directory is opened.
// Another mount inside it is refused: an overlay does not show what is mounted
// on its lower directory, so what is there is not what the sandbox saw.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// A handle owns one descriptor. The nil handle owns none.
type handle struct {
	fd int

	// attrs are all extended attributes of a file that had to be made readable for
	// the moment of opening it: reading them takes the right to read now, not
	// when it was opened. Nil: they are where they always are.
	attrs map[string]string
}

// close closes the descriptor; closing again does nothing.
func (h *handle) close() {
	if h != nil && h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
	}
}

func openat2(dirfd int, name string, flags, mode, resolve uint64) (*handle, error) {
	fd, err := sys.Openat2(dirfd, name, flags, mode, resolve)
	if err != nil {
		return nil, err
	}
	return &handle{fd: fd}, nil
}

// open opens name, a relative path, below h.
func (h *handle) open(name string, flags int) (*handle, error) {
	if name == "." && flags&unix.O_PATH != 0 {
		// Looking it up takes the right to search h, which even its owner may
		// not have before he gives it to himself.
		fd, err := unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return &handle{fd: fd}, nil
	}
	return openat2(h.fd, name, uint64(flags), 0, beneath)
}

// create makes the regular file name in h for writing, mode 0600.
func (h *handle) create(name string) (*handle, error) { return h.createMode(name, 0o600) }

// createMode is create with more permissions, as far as the umask and the directory's
// access control list allow: never set-user-ID and the like.
func (h *handle) createMode(name string, perm uint32) (*handle, error) {
	return openat2(h.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, uint64(perm&0o777|0o600), beneath)
}

// append opens the regular file name in h for appending, made if it is missing.
func (h *handle) append(name string) (*handle, error) {
	return openat2(h.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW, 0o600, beneath)
}

// readFile reads a regular file of at most that many bytes.
func (h *handle) readFile(name string, most int64) ([]byte, error) {
	f, err := h.open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.close()
	st, err := f.stat()
	if err != nil {
		return nil, err
	}
	if !st.isReg() || st.size > most {
		return nil, unix.EFBIG
	}
	data := make([]byte, st.size)
	n := 0
	for n < len(data) {
		var k int
		if err := sys.Retry(func() (err error) { k, err = unix.Read(f.fd, data[n:]); return err }); err != nil {
			return nil, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return data[:n], nil
}

// replaceFile gives the file name new content, all or nothing, under a temporary name
// until it is complete: always the same, so that crashes leave one at most. The caller
// sees to it that nobody else does this. Where there is a flusher, all that it has, and
// the content, are on disk before the name stands for it; the directory then is to be
// flushed too.
func (h *handle) replaceFile(name string, data []byte, before *flusher) (err error) {
	tmp := "." + name + ".new"
	f, err := h.create(tmp)
	if err == unix.EEXIST {
		if err = h.unlink(tmp, 0); err == nil {
			f, err = h.create(tmp)
		}
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = h.unlink(tmp, 0)
		}
	}()
	err = writeAll(f, data)
	if err != nil || before == nil {
		f.close()
	} else {
		err = inTurn(func() error { return before.addFile(f) }, before.wait)
	}
	if err != nil {
		return err
	}
	return h.rename(tmp, name, 0)
}

// inTurn takes one step after the other, until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// renameTo moves a name to another directory; flags as for renameat2(2).
func (h *handle) renameTo(from string, to *handle, name string, flags uint) error {
	return sys.Retry(func() error { return unix.Renameat2(h.fd, from, to.fd, name, flags) })
}

// flushDir waits until the directory name below h is on disk.
func (h *handle) flushDir(name string) error {
	d, err := h.openDir(name)
	if err != nil {
		return err
	}
	defer d.close()
	return d.fsync()
}

// openDir opens the directory name below h for reading.
func (h *handle) openDir(name string) (*handle, error) {
	return h.open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openAbs opens an absolute path that holds no symbolic links.
func openAbs(name string, flags int) (*handle, error) {
	return openat2(unix.AT_FDCWD, name, uint64(flags), 0, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
}

// stat is what this package needs of a struct stat, alike on all architectures.
type stat struct {
	mode, uid, gid        uint32
	dev, ino, nlink, rdev uint64
	size, blocks          int64 // bytes; units of 512 bytes
	mtime                 unix.Timespec
	ctime                 int64 // nanoseconds since 1970
}

func makeStat(st *unix.Stat_t) stat {
	return stat{
		mode: st.Mode, uid: st.Uid, gid: st.Gid,
		dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), rdev: uint64(st.Rdev),
		size: st.Size, blocks: st.Blocks,
		mtime: st.Mtim, ctime: st.Ctim.Nano(),
	}
}

func (s stat) typ() uint32  { return s.mode & unix.S_IFMT }
func (s stat) perm() uint32 { return s.mode & 0o7777 }
func (s stat) isDir() bool  { return s.typ() == unix.S_IFDIR }
func (s stat) isReg() bool  { return s.typ() == unix.S_IFREG }

// isWhiteout reports whether s is overlayfs' mark of a deleted name.
func (s stat) isWhiteout() bool { return s.typ() == unix.S_IFCHR && s.rdev == 0 }

// same reports whether t is the object s, with the content it had: used to see
// whether something was swapped or written in between. The ctime is left out
// since renaming an object changes it.
func (s stat) same(t stat) bool {
	return s.ino == t.ino && s.dev == t.dev && s.typ() == t.typ() && s.mtime == t.mtime &&
		(s.isDir() || s.size == t.size)
}

func (s stat) fileMode() fs.FileMode {
	m := fs.FileMode(s.mode & 0o777)
	switch s.typ() {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	}
	if s.mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if s.mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if s.mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// stat wraps fstat(2).
func (h *handle) stat() (stat, error) {
	var st unix.Stat_t
	if err := sys.Retry(func() error { return unix.Fstat(h.fd, &st) }); err != nil {
		return stat{}, err
	}
	return makeStat(&st), nil
}

// lstat looks at one name in the directory h; name holds no slash.
func (h *handle) lstat(name string) (stat, error) {
	// A walk asks this twice for each name: nothing is to be allocated for it.
	var buf [256]byte
	p, err := zeroed(&buf, name)
	if err != nil {
		return stat{}, err
	}
	for {
		var st unix.Stat_t
		_, _, e := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(h.fd), uintptr(unsafe.Pointer(p)),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, 0)
		switch e {
		case 0:
			return makeStat(&st), nil
		case unix.EINTR:
		default:
			return stat{}, e
		}
	}
}

// zeroed returns a name with a zero byte behind it: in buf, where it is as short as nearly
// all are.
func zeroed(buf *[256]byte, name string) (*byte, error) {
	if len(name) >= len(buf) || strings.IndexByte(name, 0) >= 0 {
		return unix.BytePtrFromString(name)
	}
	buf[copy(buf[:], name)] = 0
	return &buf[0], nil
}

// lstatIf is lstat, where a name that is not there is no error.
func (h *handle) lstatIf(name string) (st stat, found bool, err error) {
	st, err = h.lstat(name)
	if err == unix.ENOENT {
		return stat{}, false, nil
	}
	return st, err == nil, err
}

// names lists the directory h, unsorted, without "." and "..".
func (h *handle) names() ([]string, error) { return sys.Names(h.fd, make([]byte, 16<<10)) }

// chmod changes the mode of what h is open on, which may be an O_PATH descriptor.
func (h *handle) chmod(mode uint32) error { return sys.Chmod(h.fd, mode) }

func (h *handle) chown(uid, gid uint32) error {
	return sys.Retry(func() error { return unix.Fchownat(h.fd, "", int(uid), int(gid), unix.AT_EMPTY_PATH) })
}

// setMtime sets the modification time, and leaves the access time alone.
func (h *handle) setMtime(t unix.Timespec) error {
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t}
	err := unix.UtimesNanoAt(h.fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		// AT_EMPTY_PATH came with Linux 5.8 and is not known to every sandbox.
		err = unix.UtimesNanoAt(unix.AT_FDCWD, h.procPath(), ts, 0)
	}
	return err
}

func (h *handle) procPath() string { return "/proc/self/fd/" + strconv.Itoa(h.fd) }

func (h *handle) fsync() error { return sys.Retry(func() error { return unix.Fsync(h.fd) }) }

// readlink returns the text of the symbolic link that h is open on with O_PATH.
func (h *handle) readlink() (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(h.fd, "", buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// readlinkOf returns the text of the symbolic link name in dir, if it is what want says.
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

// rename moves a name within the directory h; flags as for renameat2(2).
func (h *handle) rename(from, to string, flags uint) error {
	return sys.Retry(func() error { return unix.Renameat2(h.fd, from, h.fd, to, flags) })
}

func (h *handle) unlink(name string, flags int) error {
	return sys.Retry(func() error { return unix.Unlinkat(h.fd, name, flags) })
}

// isRoot reports whether the caller reads everything whatever its mode.
func isRoot() bool { return os.Geteuid() == 0 }

// owned reports whether the caller may change the mode of s although it is
// denied access to it.
func (s stat) owned() bool { return int(s.uid) == os.Geteuid() }

// openFile opens the regular file name in the directory h for reading: never
// blocking on a FIFO or a lease that was put there, and only if it is still the
// object that want describes. With unlock, a file that its owner (us) cannot
// read is made readable for the moment of opening it, if unlock, which is called
// before, returns no error.
func (h *handle) openFile(name string, want stat, unlock func(want stat) error) (*handle, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	f, err := h.open(name, flags|unix.O_NOATIME)
	if err == unix.EPERM {
		f, err = h.open(name, flags) // O_NOATIME is for the owner only
	}
	if err == unix.EACCES && unlock != nil && want.owned() {
		var p *handle
		if p, err = h.open(name, unix.O_PATH|unix.O_NOFOLLOW); err != nil {
			return nil, err
		}
		defer p.close()
		if st, err := p.stat(); err != nil || !st.same(want) {
			return nil, orMoved(err)
		}
		if err := unlock(want); err != nil {
			return nil, err
		}
		if err := p.chmod(want.perm() | 0o400); err != nil {
			return nil, err
		}
		if f, err = h.open(name, flags); err == nil {
			err = f.keepXattrs()
		}
		if err2 := p.chmod(want.perm()); err == nil {
			err = err2
		}
		if err != nil {
			f.close()
		}
	}
	if err != nil {
		if err == unix.ELOOP || err == unix.ENOENT || err == unix.ENXIO {
			err = orMoved(nil)
		}
		return nil, err
	}
	st, err := f.stat()
	if err != nil || !st.same(want) {
		f.close()
		return nil, orMoved(err)
	}
	return f, nil
}

// orMoved is the error of a comparison that failed, or that found a difference.
func orMoved(err error) error {
	if err == nil {
		return ErrMoved
	}
	return err
}

// splitPath returns the directory and the last element of a relative path.
func splitPath(p string) (dir, name string) {
	dir, name = path.Split(p)
	if dir == "" {
		return ".", name
	}
	return strings.TrimSuffix(dir, "/"), name
}

// joinPath joins a directory ("." for the root) and a name.
func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// under reports whether p is dir or lies below it; both relative and clean.
func under(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// xattrs are extended attributes by name.
type xattrs map[string]string

const overlayPrefix = "user.overlay."

// wanted says which attributes belong to the project: those a user can set, and
// access control lists, without which a mode means something else.
func wantedXattr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, overlayPrefix) ||
		name == "system.posix_acl_access" || name == "system.posix_acl_default"
}

// setOwner makes the access control list, if there is one, say of the owner what a mode
// does: that is where chmod(2) writes it.
func (x xattrs) setOwner(mode uint32) {
	const (
		name    = "system.posix_acl_access"
		head    = 4 // the version
		entry   = 8 // tag, permissions, id: include/uapi/linux/posix_acl_xattr.h
		userObj = 1
	)
	acl := []byte(x[name])
	for at := head; at+entry <= len(acl); at += entry {
		if e := acl[at:]; binary.LittleEndian.Uint16(e) == userObj {
			binary.LittleEndian.PutUint16(e[2:], uint16(mode>>6&7))
			x[name] = string(acl)
		}
	}
}

// capabilityXattr holds a file's capabilities.
const capabilityXattr = "security.capability"

// errLayer is returned for upper objects whose content is elsewhere by an
// overlay's mark; sessions are never mounted in a way that makes such marks.
var errLayer = errors.New("it carries an overlay mark (redirect or metacopy) that no session makes")

// xattrNames lists all attributes of h; a file system without any is no error.
func (h *handle) xattrNames() ([]string, error) {
	var buf []byte
	for size := 1 << 10; ; size *= 8 {
		buf = make([]byte, size)
		n, err := unix.Flistxattr(h.fd, buf)
		if err == unix.ERANGE && size < 1<<20 {
			continue
		}
		if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EBADF {
			return nil, nil // EBADF: h is O_PATH, on something we may not read
		}
		if err != nil || n == 0 {
			return nil, err
		}
		return splitNames(buf[:n]), nil
	}
}

// splitNames splits what listxattr(2) returns.
func splitNames(list []byte) []string {
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// noListxattrat is set where the kernel does not know listxattrat(2).
var noListxattrat atomic.Bool

// xattrNamesOf lists all attributes of name in the directory h, following no link; it
// needs no right to read the object. A file system without any is no error.
func (h *handle) xattrNamesOf(name string) ([]string, error) {
	var small [256]byte
	buf := small[:]
	for {
		n, err := h.listxattrat(name, buf)
		switch {
		case err == unix.ERANGE && len(buf) < 1<<20:
			buf = make([]byte, max(1<<10, len(buf)*8))
		case err == unix.EOPNOTSUPP || err == unix.ENOSYS:
			return nil, nil
		case err != nil || n == 0:
			return nil, err
		default:
			return splitNames(buf[:n]), nil
		}
	}
}

func (h *handle) listxattrat(name string, buf []byte) (int, error) {
	if !noListxattrat.Load() {
		var zero [256]byte
		p, err := zeroed(&zero, name)
		if err != nil {
			return 0, err
		}
		n, _, errno := syscall.Syscall6(unix.SYS_LISTXATTRAT, uintptr(h.fd), uintptr(unsafe.Pointer(p)),
			unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.ENOSYS, unix.EPERM:
			noListxattrat.Store(true) // before Linux 6.13, or in another sandbox
		default:
			return 0, errno
		}
	}
	return unix.Llistxattr(h.procPath()+"/"+name, buf)
}

// getXattr returns one attribute of h, and whether it is there.
func (h *handle) getXattr(name string) (string, bool, error) {
	if h.attrs != nil {
		v, found := h.attrs[name]
		return v, found, nil
	}
	for size := 256; ; size = 64 << 10 {
		buf := make([]byte, size)
		n, err := unix.Fgetxattr(h.fd, name, buf)
		switch {
		case err == unix.ERANGE && size < 64<<10:
		case err == unix.ENODATA || err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EBADF:
			return "", false, nil
		case err != nil:
			return "", false, err
		default:
			return string(buf[:n]), true, nil
		}
	}
}

// keepXattrs reads all attributes of h, for a time when they cannot be read.
func (h *handle) keepXattrs() error {
	names, err := h.xattrNames()
	if err != nil {
		return err
	}
	all := map[string]string{}
	for _, name := range names {
		v, found, err := h.getXattr(name)
		if err != nil {
			return err
		}
		if found {
			all[name] = v
		}
	}
	h.attrs = all
	return nil
}

// xattrs returns the attributes of h that belong to the project.
func (h *handle) xattrs() (xattrs, error) {
	names, err := h.xattrNames()
	if err != nil {
		return nil, err
	}
	var set xattrs
	if _, err := traitsOf(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if !wantedXattr(name) {
			continue
		}
		v, found, err := h.getXattr(name)
		if err != nil {
			return nil, err
		}
		if found {
			if set == nil {
				set = xattrs{}
			}
			set[name] = v
		}
	}
	return set, nil
}

// setXattrs gives h exactly the attributes want, among those that belong to the
// project: a new file may have got an access control list from its directory.
func (h *handle) setXattrs(want xattrs) error {
	have, err := h.xattrs()
	if err != nil {
		return err
	}
	// Users' attributes first: changing them takes the right to write, which an access
	// control list may take from the owner.
	if err := h.unlocked(func() error { return h.changeXattrs(have, want, true) }); err != nil {
		return err
	}
	return h.changeXattrs(have, want, false)
}

// unlocked calls do, and if its owner (us) may not write to h, once more with that
// right.
func (h *handle) unlocked(do func() error) error {
	err := do()
	if err != unix.EACCES || isRoot() {
		return err
	}
	st, e := h.stat()
	if e != nil || !st.owned() || st.perm()&0o200 != 0 {
		return err
	}
	if err := h.chmod(st.perm() | 0o200); err != nil {
		return err
	}
	err = do()
	if e := h.chmod(st.perm()); err == nil {
		err = e
	}
	return err
}

// changeXattrs makes the attributes have be want: those of users, or the others.
func (h *handle) changeXattrs(have, want xattrs, users bool) error {
	for name := range have {
		if _, ok := want[name]; ok || strings.HasPrefix(name, "user.") != users {
			continue
		}
		err := unix.Fremovexattr(h.fd, name)
		if err != nil && err != unix.ENODATA {
			return err
		}
	}
	for name, v := range want {
		if w, ok := have[name]; ok && w == v || strings.HasPrefix(name, "user.") != users {
			continue
		}
		err := unix.Fsetxattr(h.fd, name, []byte(v), 0)
		if err != nil {
			return err
		}
	}
	return nil
}
