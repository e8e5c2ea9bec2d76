//go:build linux

package renames

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// An overlay that a user namespace mounts gives a file of a lower layer another inode number when it is copied up, but
// keeps the old number for a name that it has looked up before. So after link(2) the two names have different numbers,
// and programs take them for two files: cp(1) of one over the other would empty both. So the old name is made a link to
// the new one (join).
//
// git links the objects of a local repository into a clone, and fails if the new name has another number than the old
// one had before. So for git the old name itself is moved to the new place (trade). If that does not help, git gets
// EXDEV, as for different file systems, and copies.

// isLink reports whether a call is link(2) or linkat(2).
func isLink(nr int32) bool { return nr == unix.SYS_LINKAT || nr == sysLink }

// link answers a call that makes a link.
func (s *Server) link(l notify.Listener, n *notify.Notification) {
	c := parse(n)
	switch {
	case c.flags&^unix.AT_SYMLINK_FOLLOW != 0 || c.pid == 0:
		l.Proceed(n.ID)
	case s.own || os.Geteuid() != 0:
		s.seen.link(l, &c, s)
	default:
		s.running.Go(func() {
			if !s.act(l, &c, func(seen *caller) { seen.link(l, &c, s) }) {
				l.Proceed(c.id)
			}
		})
	}
}

// isGit reports whether a thread has the name of git.
func isGit(pid uint32) bool {
	b, err := os.ReadFile(notify.Proc(pid, "comm"))
	return err == nil && string(b) == "git\n"
}

// link makes the link in the caller's place, or leaves it to the kernel.
func (s *caller) link(l notify.Listener, c *call, of *Server) {
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
	git, overlay := isGit(c.pid), m.overlay()
	if !l.Valid(c.id) {
		return
	}
	err := error(errLeave)
	if overlay {
		m.by = s.by
		of.effect(func() { m.asOwner(func() { err = m.link(s, of, c.flags != 0, git) }) })
	}
	switch err {
	case nil:
		l.Answer(c.id, 0)
	case unix.EXDEV:
		l.Answer(c.id, unix.EXDEV)
	default:
		l.Proceed(c.id)
	}
}

// link makes a link in an overlay that has the same inode number as the other name; for git, the number that the file
// had before, or it returns EXDEV. With any other error the kernel carries out the call. It follows no symbolic link:
// with follow, the kernel does that.
func (m *move) link(s *caller, of *Server, follow, git bool) error {
	before, err := m.from.stat()
	if err != nil || isDir(&before) || mounted(&before) {
		return errLeave
	}
	typ := before.Mode & unix.S_IFMT
	if follow && typ == unix.S_IFLNK {
		return errLeave
	}
	git = git && typ == unix.S_IFREG
	again := !git && before.Nlink > 1 && of.copies.link(&before, s, m.to)
	old := !git && time.Unix(before.Btime.Sec, int64(before.Btime.Nsec)).Before(of.began)
	if old || git || again {
		defer of.dirTimes.keep(m)()
	}
	if !again && m.add(old) != nil {
		return errLeave
	}
	if m.to.is(&before) {
		return nil
	}
	file, ok := m.hold(&before)
	defer file.Close()
	switch {
	case !git && ok:
		m.join(file)
		if before.Nlink > 1 && !again {
			of.copies.add(numberOf(&before), s, m.to)
		}
		return nil
	case !git: // somebody has replaced the old name
		return nil
	case m.to.unlink() != nil || !ok || m.trade(file) != nil:
		return unix.EXDEV
	}
	if m.to.is(&before) {
		return nil
	}
	_ = m.to.unlink() // it had several names in the lower layer: the overlay keeps no number of such a file
	return unix.EXDEV
}

// add makes the new name. Where an old file of a lower layer gets a name, the overlay marks the directory, and removes
// the mark when the directory is read: that changes its ctime, and tar(1) fails (see finish). So an old file gets a
// name beside the old one first: for the overlay that name is not one of a lower layer.
func (m *move) add(old bool) error {
	if !old {
		return linkat(m.from, m.to)
	}
	beside := place{m.from.dir, temporary()}
	if _, err := m.to.stat(); err != unix.ENOENT || linkat(m.from, beside) != nil {
		return linkat(m.from, m.to)
	}
	err := linkat(beside, m.to)
	_ = beside.unlink()
	return err
}

// hold opens the old name, if it is still a name of the file that was linked.
func (m *move) hold(before *unix.Statx_t) (file sys.FD, ok bool) {
	file, st, err := m.from.openPath()
	if err == nil && !sameFile(&st, before) { // the number of a file with several names has changed
		var to unix.Statx_t
		if to, err = m.to.stat(); err == nil && !linked(&st, &to) {
			err = errLeave
		}
	}
	if err != nil {
		file.Close()
		return sys.None, false
	}
	return file, true
}

// hold opens a name, if it is still a name of a file.
func (p place) hold(of *unix.Statx_t) (file sys.FD, ok bool) {
	file, st, err := p.openPath()
	if err == nil && sameFile(&st, of) {
		return file, true
	}
	file.Close()
	return sys.None, false
}

// openPath opens a name, without rights to read or write, and returns its stat.
func (p place) openPath() (file sys.FD, st unix.Statx_t, err error) {
	const how = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV
	n, err := sys.Openat2(int(p.dir), p.name, unix.O_PATH|unix.O_NOFOLLOW, 0, how)
	if err != nil {
		return sys.None, st, err
	}
	st, err = statOf(sys.FD(n))
	return sys.FD(n), st, err
}

// join makes the old name a link to the new one. If that fails, for example in a read-only directory, the new link
// exists anyway.
func (m *move) join(file sys.FD) {
	if known, err := m.replace(file, &m.to); err == nil {
		_ = known.unlink()
	}
}

// trade moves the old name to the new place, and puts a link to the file in its place.
func (m *move) trade(file sys.FD) error {
	known, err := m.replace(file, nil)
	if err != nil {
		return err
	}
	if err = rename(known, m.to, unix.RENAME_NOREPLACE); err != nil {
		_ = known.unlink()
	}
	return err
}

// replace moves the old name to a temporary one, and puts a link to the file in its place: a link to by, or, if that is
// nil, to the temporary name. In between, the old name is a symbolic link to the file, so that it can be opened. Only
// who has read the link, and follows it after the temporary name is gone, misses the file.
// Others can replace the old name at any moment. So names are only exchanged, and then it is checked what came back.
func (m *move) replace(file sys.FD, by *place) (known place, err error) {
	dir := m.from.dir
	known, made := place{dir, temporary()}, place{dir, temporary()}
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
	if known.isOf(file) {
		err = linkat(*by, made)
	} else {
		err = errLeave
	}
	var link unix.Statx_t
	if err == nil {
		link, err = made.stat()
	}
	if err == nil {
		err = rename(m.from, made, unix.RENAME_EXCHANGE)
	}
	if err == nil {
		m.settle(made, known.name, func() bool { return made.is(&link) })
		return known, nil
	}
	if link.Mask != 0 {
		_ = made.unlink()
	}
	m.settle(known, known.name, func() bool { return known.isOf(file) })
	return known, err
}

// settle removes a temporary name that is the symbolic link. If it is something else, settle exchanges it with the old
// name. If our own file (ours) comes back then, somebody has replaced it meanwhile, and settle removes it. If others
// are faster each time, the temporary name stays, and no file is lost.
func (m *move) settle(p place, link string, ours func() bool) {
	for tries := range 4 {
		text := make([]byte, len(link)+1)
		if n, err := unix.Readlinkat(int(p.dir), p.name, text); err == nil && string(text[:n]) == link || tries > 0 && ours() {
			_ = p.unlink()
			return
		}
		err := rename(p, m.from, unix.RENAME_EXCHANGE)
		if err == unix.ENOENT { // somebody has removed the old name
			if ours() {
				_ = p.unlink()
			} else {
				_ = rename(p, m.from, unix.RENAME_NOREPLACE)
			}
		}
		if err != nil {
			return
		}
	}
}

// isOf reports whether a name is that of an open file.
func (p place) isOf(file sys.FD) bool {
	st, err := statOf(file)
	return err == nil && p.is(&st)
}

func statOf(file sys.FD) (st unix.Statx_t, err error) {
	err = sys.Statx(int(file), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return st, err
}

func linkat(from, to place) error {
	return sys.Retry(func() error { return unix.Linkat(int(from.dir), from.name, int(to.dir), to.name, 0) })
}

// unlink removes a name that is not a mount point.
func (p place) unlink() error {
	if err := p.free(); err != nil {
		return err
	}
	return unix.Unlinkat(int(p.dir), p.name, 0)
}
