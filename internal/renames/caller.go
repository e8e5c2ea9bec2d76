//go:build linux

package renames

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// A call is a system call that was reported.
type call struct {
	id    uint64
	pid   uint32 // of the thread
	dir   [2]int32
	path  [2]uint64 // where the names are in the caller's memory: the old one, the new one
	flags uint32
}

func parse(n *notify.Notification) call {
	c := call{id: n.ID, pid: n.PID}
	switch uint32(n.NR) {
	case unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		c.flags = uint32(n.Args[4])
		fallthrough
	case unix.SYS_RENAMEAT:
		c.dir, c.path = [2]int32{int32(n.Args[0]), int32(n.Args[2])}, [2]uint64{n.Args[1], n.Args[3]}
	default: // rename and link
		c.dir, c.path = [2]int32{unix.AT_FDCWD, unix.AT_FDCWD}, [2]uint64{n.Args[0], n.Args[1]}
	}
	return c
}

// A caller is the thread that made the last call, and what is known of it.
type caller struct {
	text [unix.PathMax]byte
	pid  uint32
	root sys.FD  // its root directory; only if pid is not zero
	by   *rights // nil: this process's
	// changes says that a thread can have changed its root since its last call.
	changes bool
}

func (s *caller) close() {
	if s.pid != 0 {
		s.root.Close()
		s.pid = 0
	}
}

// keep returns a caller with the same root, for as long as a directory is carried over. It is nil without a descriptor.
func (s *caller) keep() *caller {
	fd, err := unix.FcntlInt(uintptr(s.root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &caller{pid: s.pid, root: sys.FD(fd)}
}

// How names are looked up: never through the links that /proc has for a process.
const (
	inRoot  = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	asDir   = unix.O_PATH | unix.O_DIRECTORY
)

// concerns reports whether a call can be about a directory, or a file with several names. It is quick. An attacker
// gains nothing from a wrong answer, because the kernel then carries out the call.
func (s *caller) concerns(c *call) bool {
	const known = unix.RENAME_NOREPLACE | unix.RENAME_EXCHANGE
	if c.pid == 0 || c.flags&^known != 0 || !s.open(c.pid) {
		return false
	}
	return s.special(c, 0) || c.flags&unix.RENAME_EXCHANGE != 0 && s.special(c, 1)
}

// open opens the caller's root directory, unless the last call came from the same thread.
func (s *caller) open(pid uint32) bool {
	if pid == s.pid && !s.changes {
		return true
	}
	s.close()
	root, err := unix.Open(notify.Proc(pid, "root"), asDir|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	s.pid, s.root = pid, sys.FD(root)
	return true
}

// special reports whether one of the names of a call can be that of a directory, or of a file with several names.
func (s *caller) special(c *call, which int) bool {
	name := s.read(c.pid, c.path[which])
	if name == "" {
		return false
	}
	at, how := s.root, uint64(inRoot)
	if name[0] != '/' {
		fd, err := unix.Open(notify.Base(c.pid, c.dir[which]), asDir|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		at, how = sys.FD(fd), beneath
		defer at.Close()
	}
	fd, err := sys.Openat2(int(at), name, unix.O_PATH|unix.O_NOFOLLOW, 0, how)
	if err != nil {
		// The name leads out of the directory, or through one that only the caller may enter.
		return err == unix.EXDEV || err == unix.EACCES
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	err = sys.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_NLINK, &st)
	return err == nil && (isDir(&st) || st.Nlink > 1)
}

// read reads a string from a caller's memory. Empty: it cannot be read.
func (s *caller) read(pid uint32, at uint64) string {
	text, _ := notify.ReadString(pid, uintptr(at), s.text[:])
	return text
}

// resolve finds the directories that the names of a call are in. Nil: the call is left to the kernel.
func (s *caller) resolve(c *call) *move {
	if !sameUser(c.pid) {
		return nil
	}
	m := &move{flags: c.flags, from: place{dir: sys.None}, to: place{dir: sys.None}}
	var asDirs [2]bool
	for i, p := range [...]*place{&m.from, &m.to} {
		whole := s.read(c.pid, c.path[i])
		name := strings.TrimRight(whole, "/")
		asDirs[i] = len(name) < len(whole)
		slash := strings.LastIndexByte(name, '/')
		p.name = name[slash+1:]
		if p.name == "" || p.name == "." || p.name == ".." {
			m.close()
			return nil
		}
		var err error
		if slash >= 0 && name[0] == '/' {
			p.dir, err = s.openDir(s.root, name[:slash+1], inRoot)
		} else {
			p.dir, err = s.below(notify.Base(c.pid, c.dir[i]), name[:slash+1])
		}
		if err != nil {
			m.close()
			return nil
		}
	}
	if !m.fits(asDirs) {
		m.close()
		return nil
	}
	return m
}

// fits reports whether something is a directory where a slash at the end of a name says so. If not, the kernel refuses
// the call. A slash after the new name is about the old one, unless the two are exchanged.
func (m *move) fits(asDirs [2]bool) bool {
	of := [2]place{m.from, m.from}
	if m.flags&unix.RENAME_EXCHANGE != 0 {
		of[1] = m.to
	}
	for i, p := range of {
		if !asDirs[i] {
			continue
		}
		if st, err := p.stat(); err != nil || !isDir(&st) {
			return false
		}
	}
	return true
}

func open(at sys.FD, name string, how uint64) (sys.FD, error) {
	fd, err := sys.Openat2(int(at), name, asDir, 0, how)
	return sys.FD(fd), err
}

// below opens a directory by a name that is relative to base. An empty name means base.
func (s *caller) below(base, name string) (sys.FD, error) {
	fd, err := unix.Open(base, asDir|unix.O_CLOEXEC, 0)
	if err != nil || name == "" {
		return sys.FD(fd), err
	}
	at := sys.FD(fd)
	defer at.Close()
	to, err := s.openDir(at, name, beneath)
	if err != unix.EXDEV {
		return to, err
	}
	// The name leads out of base, by ".." or an absolute link. So base is opened by the kernel's name for it, if
	// that leads to it in the caller's root.
	text, err := s.nameOf(at)
	if err != nil {
		return sys.None, err
	}
	again, err := s.openDir(s.root, text, inRoot|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return sys.None, err
	}
	defer again.Close()
	if !same(at, again) {
		return sys.None, unix.ENOENT
	}
	return s.openDir(s.root, text+"/"+name, inRoot)
}

// nameOf returns the kernel's name for a directory. In the caller's root that name may lead elsewhere.
func (s *caller) nameOf(dir sys.FD) (string, error) {
	n, err := unix.Readlink(sys.ProcPath(int(dir)), s.text[:])
	return string(s.text[:max(n, 0)]), err
}

// sameUser reports whether a thread has the same user and group for files as this thread. Only processes of root can
// change these in a sandbox.
func sameUser(pid uint32) bool {
	if os.Geteuid() != 0 {
		return true
	}
	who, ok := rightsOf(pid)
	user, group := ids()
	return ok && who.user == user && who.group == group
}
