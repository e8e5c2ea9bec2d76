//go:build linux

package tree

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// beneath is how everything below a root or a session directory is opened. Another mount inside it is refused: an
// overlay does not show what is mounted on its lower directory, so what is there is not what the sandbox saw.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// A Handle is a file or directory that is open. It owns the descriptor. The nil handle owns none.
type Handle struct {
	sys.FD

	// attrs are all extended attributes of a file that was readable only while it was opened: reading them needs
	// read permission at the time of reading. Nil: they are read from the file.
	attrs map[string]string

	// opener opens what is below h if the caller may not; what it opens has it too. Nil: there is none.
	opener Opener
}

// Close closes the descriptor; closing again does nothing.
func (h *Handle) Close() {
	if h != nil {
		h.FD.Close()
	}
}

func (h *Handle) OSFile(name string) *os.File { return os.NewFile(uintptr(h.FD), name) }

// Mkdir makes the directory name in h, mode 0700.
func (h *Handle) Mkdir(name string) error { return sys.Mkdir(int(h.FD), name, 0o700) }

func Openat2(at sys.FD, name string, flags, mode, resolve uint64) (*Handle, error) {
	fd, err := sys.Openat2(int(at), name, flags, mode, resolve)
	if err != nil {
		return nil, err
	}
	return &Handle{FD: sys.FD(fd)}, nil
}

// Open opens name, a relative path, below h.
func (h *Handle) Open(name string, flags int) (*Handle, error) {
	if name == "." && flags&unix.O_PATH != 0 {
		// A lookup needs search permission on h, which even its owner may not have yet.
		fd, err := unix.FcntlInt(uintptr(h.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return &Handle{FD: sys.FD(fd), opener: h.opener}, nil
	}
	f, err := Openat2(h.FD, name, uint64(flags), 0, beneath)
	if h.opener == nil {
		return f, err
	}
	if err == unix.EACCES && h.perhapsOwn(name) {
		f, err = h.ask(name, uint64(flags), beneath, unix.EACCES)
	}
	if err == nil {
		f.opener = h.opener
	}
	return f, err
}

// Create makes the regular file name in h for writing, mode 0600.
func (h *Handle) Create(name string) (*Handle, error) { return h.createMode(name, 0o600) }

// createMode is Create with more permissions, as far as the umask and the directory's
// access control list allow. It never sets the set-user-ID bit and the like.
func (h *Handle) createMode(name string, perm uint32) (*Handle, error) {
	return Openat2(h.FD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, uint64(perm&0o777|0o600), beneath)
}

// Append opens the regular file name in h for appending, and makes it if it is missing.
func (h *Handle) Append(name string) (*Handle, error) {
	return Openat2(h.FD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW, 0o600, beneath)
}

func (h *Handle) ReadFile(name string, most int64) ([]byte, error) {
	f, err := h.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.IsReg() || st.Size > most {
		return nil, unix.EFBIG
	}
	data := make([]byte, st.Size)
	n := 0
	for n < len(data) {
		var k int
		if err := sys.Retry(func() (err error) { k, err = unix.Read(int(f.FD), data[n:]); return err }); err != nil {
			return nil, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return data[:n], nil
}

// InTurn takes one step after the other, until one fails.
func InTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// RenameTo moves a name to another directory; flags as for renameat2(2).
func (h *Handle) RenameTo(from string, to *Handle, name string, flags uint) error {
	return sys.Renameat2(int(h.FD), from, int(to.FD), name, flags)
}

// FlushDir waits until the directory name below h is on disk.
func (h *Handle) FlushDir(name string) error {
	d, err := h.OpenDir(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Fsync()
}

func (h *Handle) OpenDir(name string) (*Handle, error) {
	return h.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// OpenAbs opens an absolute path that holds no symbolic links.
func OpenAbs(name string, flags int) (*Handle, error) {
	return Openat2(unix.AT_FDCWD, name, uint64(flags), 0, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
}

// Names lists the directory h, unsorted, without "." and "..".
func (h *Handle) Names() ([]string, error) {
	buf := listings.Get().(*[16 << 10]byte)
	defer listings.Put(buf)
	return sys.Names(int(h.FD), buf[:])
}

// listings are buffers for Names: most are small, and a walk needs one for each directory.
var listings = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// Chmod changes the mode of what h is open on, which may be an O_PATH descriptor.
func (h *Handle) Chmod(mode uint32) error { return sys.Chmod(int(h.FD), mode) }

func (h *Handle) Chown(uid, gid uint32) error {
	return sys.Retry(func() error { return unix.Fchownat(int(h.FD), "", int(uid), int(gid), unix.AT_EMPTY_PATH) })
}

// SetMtime sets the modification time, and leaves the access time alone.
func (h *Handle) SetMtime(t unix.Timespec) error {
	err := sys.SetTimes(int(h.FD), []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t})
	if err != nil || t.Nsec == unix.UTIME_NOW {
		return err
	}
	// File systems of FUSE that were built with its second version ignore one time alone.
	var st unix.Stat_t
	if unix.Fstat(int(h.FD), &st) != nil || st.Mtim == t || !h.onFUSE() {
		return nil
	}
	return sys.SetTimes(int(h.FD), []unix.Timespec{st.Atim, t})
}

func (h *Handle) ProcPath() string { return sys.ProcPath(int(h.FD)) }

func (h *Handle) Fsync() error { return sys.Fsync(int(h.FD)) }

// readlink returns the text of the symbolic link that h is open on with O_PATH.
func (h *Handle) readlink() (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(int(h.FD), "", buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// readlinkOf returns the text of the symbolic link name in dir, if it is what want says.
func readlinkOf(dir *Handle, name string, want Stat) (string, error) {
	l, err := dir.Open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	defer l.Close()
	if st, err := l.Stat(); err != nil || !st.Same(want) {
		return "", OrMoved(err)
	}
	return l.readlink()
}

// Rename moves a name within the directory h; flags as for renameat2(2).
func (h *Handle) Rename(from, to string, flags uint) error {
	return sys.Renameat2(int(h.FD), from, int(h.FD), to, flags)
}

func (h *Handle) Unlink(name string, flags int) error {
	return sys.Retry(func() error { return unix.Unlinkat(int(h.FD), name, flags) })
}

// OpenDirOrPath opens a directory for listing or, if that is not allowed, for lookups.
func (h *Handle) OpenDirOrPath(name string) (*Handle, error) {
	d, err := h.OpenDir(name)
	if err == unix.EACCES {
		d, err = h.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	}
	return d, err
}

// WriteAll writes all of p at the descriptor's offset.
func WriteAll(h *Handle, p []byte) error {
	for len(p) > 0 {
		n := 0
		if err := sys.Retry(func() (err error) { n, err = unix.Write(int(h.FD), p); return err }); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Stat wraps fstat(2).
func (h *Handle) Stat() (Stat, error) {
	var st unix.Stat_t
	if err := sys.Retry(func() error { return unix.Fstat(int(h.FD), &st) }); err != nil {
		return Stat{}, err
	}
	return MakeStat(&st), nil
}

// Lstat looks at one name in the directory h; name holds no slash.
func (h *Handle) Lstat(name string) (Stat, error) {
	// A walk asks this twice for each name: nothing is to be allocated for it.
	var buf [256]byte
	p, err := zeroed(&buf, name)
	if err != nil {
		return Stat{}, err
	}
	st, err := h.lstat(p)
	if err == unix.EACCES && h.opener != nil {
		return h.lstatClosed(name)
	}
	return st, err
}

// lstat wraps fstatat(2) for a path that ends in a zero byte.
func (h *Handle) lstat(p *byte) (Stat, error) {
	for {
		var st unix.Stat_t
		_, _, e := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(h.FD), uintptr(unsafe.Pointer(p)),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, 0)
		switch e {
		case 0:
			return MakeStat(&st), nil
		case unix.EINTR:
		default:
			return Stat{}, e
		}
	}
}

// zeroed returns a name that ends in a zero byte: in buf, if it is short, as nearly all are.
func zeroed(buf *[256]byte, name string) (*byte, error) {
	if len(name) >= len(buf) || strings.IndexByte(name, 0) >= 0 {
		return unix.BytePtrFromString(name)
	}
	buf[copy(buf[:], name)] = 0
	return &buf[0], nil
}

// LstatIf is like Lstat, but a missing name is no error.
func (h *Handle) LstatIf(name string) (st Stat, found bool, err error) {
	st, err = h.Lstat(name)
	if err == unix.ENOENT {
		return Stat{}, false, nil
	}
	return st, err == nil, err
}
