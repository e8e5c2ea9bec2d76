//go:build linux

package renames

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// git links the objects of a local repository into a clone, and dies where the new name has another inode number than the old
// one had before. An overlay that a user namespace mounts gives a file of a lower layer another number when it is copied up, and
// keeps the old one for the name that was known. Other programs do not look. So git alone is told that the two names lie on
// different file systems (EXDEV), for which it has an answer: it copies. What comes of it for the caller is what link(2) may
// answer anywhere.

// isLink reports whether a call is link(2) or linkat(2).
func isLink(nr int32) bool { return nr == unix.SYS_LINKAT || nr == sysLink }

// link answers a call that makes a link.
func (s *Server) link(l notify.Listener, n *notify.Notification) {
	c := parse(n)
	switch {
	case c.flags != 0 || c.pid == 0 || !isGit(c.pid):
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
	switch err := m.link(); err {
	case nil:
		l.Answer(c.id, 0)
	case unix.EXDEV:
		l.Answer(c.id, unix.EXDEV)
	default:
		l.Proceed(c.id)
	}
}

// link makes a link that has the number of the file, or answers EXDEV. Any other error is for the kernel to find again.
func (m *move) link() error {
	before, err := m.from.stat()
	if err != nil || before.Mode&unix.S_IFMT != unix.S_IFREG || !m.overlay() {
		return errLeave
	}
	if err := sys.Retry(func() error { return unix.Linkat(int(m.from.dir), m.from.name, int(m.to.dir), m.to.name, 0) }); err != nil {
		return errLeave
	}
	after, err := m.to.stat()
	if err == nil && sameFile(&before, &after) {
		return nil
	}
	if err == nil && !mounted(&after) {
		_ = unix.Unlinkat(int(m.to.dir), m.to.name, 0)
	}
	return unix.EXDEV
}
