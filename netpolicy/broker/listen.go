package broker

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// listen answers listen(2): on our copy, and never on a socket of the host's network,
// such as one whose connection has ended is.
func (s *server) listen(n *notification) {
	_, fd, e := s.copy(n.pid, int(int32(n.args[0])))
	defer fd.Close()
	if !s.l.valid(n.id) {
		return
	}
	if e == 0 {
		e = s.b.listenOn(fd, n.args[1])
	}
	s.l.answer(n.id, e)
}

func (b *Broker) listenOn(fd sys.FD, backlog uint64) syscall.Errno {
	domain, e := option(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case e != 0:
		return e
	case domain != unix.AF_UNIX && !b.sandboxed(fd):
		return syscall.EPERM
	}
	_, _, e = syscall.RawSyscall(unix.SYS_LISTEN, uintptr(fd), uintptr(backlog), 0)
	return e
}
