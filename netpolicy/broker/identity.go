//go:build linux

package broker

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// What to do if kcmp(2) is refused. A socket has one open file, so its inode says whether two descriptors are the same
// socket.

// link is the target of a descriptor's link in /proc: "socket:[4711]". Empty: there is no such descriptor.
func (t *task) link(number int) string {
	var b [64]byte
	n, err := unix.Readlinkat(int(t.fds), strconv.Itoa(number), b[:])
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// socketInode is the inode of a socket of the task, by its descriptor. 0: it is no socket.
func (t *task) socketInode(number int) uint64 {
	text, ok := strings.CutPrefix(t.link(number), "socket:[")
	if !ok {
		return 0
	}
	ino, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	if err != nil {
		return 0
	}
	return ino
}

// inode is that of a descriptor of this process. It is never 0 for an open one.
func inode(fd sys.FD) uint64 {
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil {
		return ^uint64(0)
	}
	return st.Ino
}

// listed reports whether a descriptor of the caller is an epoll instance that knows the old socket by one of the
// numbers.
func (c *call) listed(poll int, numbers []int) bool {
	if c.task.link(poll) != "anon_inode:[eventpoll]" {
		return false
	}
	ino := inode(c.old)
	return slices.ContainsFunc(c.task.registrations(poll), func(r registration) bool {
		return r.ino == ino && slices.Contains(numbers, r.number)
	})
}

// shareFlags reports whether two epoll instances of the task are one open file: then a flag that one is given the other
// has too. It means nothing to an epoll instance, and is given back.
func (t *task) shareFlags(a, b int) bool {
	one, e := t.copy(a)
	if e != 0 {
		return false
	}
	defer one.Close()
	other, e := t.copy(b)
	if e != 0 {
		return false
	}
	defer other.Close()
	before, e1 := fcntl(one, unix.F_GETFL, 0)
	was, e2 := fcntl(other, unix.F_GETFL, 0)
	if e1 != 0 || e2 != 0 || before != was {
		return false
	}
	if _, e := fcntl(one, unix.F_SETFL, before^unix.O_NONBLOCK); e != 0 {
		return false
	}
	now, e := fcntl(other, unix.F_GETFL, 0)
	_, _ = fcntl(one, unix.F_SETFL, before)
	return e == 0 && now != was
}
