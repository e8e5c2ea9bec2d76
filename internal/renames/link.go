//go:build linux

package renames

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// An overlay that a user namespace mounts gives a file of a lower layer another inode number when it is copied up, and keeps the
// old one for the name that was known. So after link(2) the two names have different numbers, and programs take them for two
// files: cp(1) of one over the other would empty both. The old name is made a link to the new one (join).
//
// git links the objects of a local repository into a clone, and dies where the new name has another number than the old one had
// before. So for git the known name goes to the new place (trade). Where that does not help, git is told that the names lie on
// different file systems (EXDEV), and copies.

// isLink reports whether a call is link(2) or linkat(2).
func isLink(nr int32) bool { return nr == unix.SYS_LINKAT || nr == sysLink }

// link answers a call that makes a link.
func (s *Server) link(l notify.Listener, n *notify.Notification) {
	c := parse(n)
	switch {
	case c.flags != 0 || c.pid == 0:
		l.Proceed(n.ID)
	case s.own || os.Geteuid() != 0:
		s.seen.link(l, &c)
	default:
		s.running.Go(func() {
			if !s.act(func(seen *caller) { seen.link(l, &c) }) {
				l.Proceed(c.id)
			}
		})
	}
}

// isGit reports whether a thread says that it is git's.
func isGit(pid uint32) bool {
	b, err := os.ReadFile(proc(pid, "comm"))
	return err == nil && string(b) == "git\n"
}

// link makes the link in the caller's place, or leaves it to the kernel.
func (s *caller) link(l notify.Listener, c *call) {
	s.close() // as in begin
	if !s.open(c.pid) {
		l.Proceed(c.id)
		return
	}
	m := s.resolve(c)
	if m == nil {
		l.Proceed(c.id)
		return
	}
	defer m.close()
	if !l.Valid(c.id) {
		return
	}
	switch err := m.link(isGit(c.pid)); err {
	case nil:
		l.Answer(c.id, 0)
	case unix.EXDEV:
		l.Answer(c.id, unix.EXDEV)
	default:
		l.Proceed(c.id)
	}
}

// link makes a link that has the number of the other name; for git that which the file had, or EXDEV. Any other error is for the
// kernel to find again.
func (m *move) link(git bool) error {
	before, err := m.from.stat()
	if err != nil || before.Mode&unix.S_IFMT != unix.S_IFREG || mounted(&before) || !m.overlay() {
		return errLeave
	}
	if linkat(m.from, m.to) != nil {
		return errLeave
	}
	if m.to.is(&before) {
		return nil
	}
	if !git {
		m.join()
		return nil
	}
	if m.to.unlink() != nil {
		return unix.EXDEV
	}
	if m.trade() != nil {
		return unix.EXDEV
	}
	if m.to.is(&before) {
		return nil
	}
	_ = m.to.unlink() // it had several names in the lower layer: the overlay keeps no number of such a file
	return unix.EXDEV
}

// join makes the old name a link to the new one. Where that fails, as in a directory that cannot be written to, the link is there
// all the same.
func (m *move) join() {
	if known, err := m.replace(&m.to); err == nil {
		_ = known.unlink()
	}
}

// trade gives the new place the name that the file is known by, and the old one a link to it.
func (m *move) trade() error {
	known, err := m.replace(nil)
	if err != nil {
		return err
	}
	if err = rename(known, m.to, unix.RENAME_NOREPLACE); err != nil {
		_ = known.unlink()
	}
	return err
}

// replace puts a link to a file in the place of the old name, and moves the name that the file is known by to a temporary one. The
// link is to that name where there is no other. Meanwhile the old name is a symbolic link to the file, so that it can be opened
// all the time.
func (m *move) replace(by *place) (known place, err error) {
	dir := m.from.dir
	known, linked := place{dir, temporary()}, place{dir, temporary()}
	if by == nil {
		by = &known
	}
	if err := unix.Symlinkat(known.name, int(dir), known.name); err != nil {
		return known, err
	}
	if err := rename(m.from, known, unix.RENAME_EXCHANGE); err != nil {
		_ = known.unlink()
		return known, err
	}
	if err = linkat(*by, linked); err == nil {
		err = rename(linked, m.from, 0)
	}
	if err != nil {
		_ = linked.unlink()
		if rename(known, m.from, unix.RENAME_EXCHANGE) == nil {
			_ = known.unlink()
		}
	}
	return known, err
}

func linkat(from, to place) error {
	return sys.Retry(func() error { return unix.Linkat(int(from.dir), from.name, int(to.dir), to.name, 0) })
}

// unlink removes a name that is no mount's.
func (p place) unlink() error {
	if !p.free() {
		return unix.EBUSY
	}
	return unix.Unlinkat(int(p.dir), p.name, 0)
}
