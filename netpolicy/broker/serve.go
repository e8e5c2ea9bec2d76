//go:build linux

package broker

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// A server is one thread that answers.
type server struct {
	b *Broker
	l notify.Listener
	n notify.Notification

	tasks map[uint32]*task // who has called before

	host   uint64 // which network namespace the sockets are of that it makes
	inward bool   // whether the last TCP socket was used inside of the sandbox

	usual [4]usual // see call.usual
}

// maxTasks is how many callers a server remembers.
const maxTasks = 16

// copy returns a copy of a caller's descriptor, and the caller, which belongs to the server. Check
// afterwards that the notification is still valid: else the process id may be somebody else's.
func (s *server) copy(pid uint32, number int) (*task, sys.FD, syscall.Errno) {
	if t := s.tasks[pid]; t != nil {
		fd, e := t.copy(number)
		if e != syscall.ESRCH {
			return t, fd, e
		}
		// The one that had this number before.
		t.close()
		delete(s.tasks, pid)
	}
	t, e := openTask(pid)
	if e != 0 {
		return nil, sys.None, e
	}
	if len(s.tasks) >= maxTasks {
		s.forget()
	}
	s.tasks[pid] = t
	fd, e := t.copy(number)
	return t, fd, e
}

func (s *server) forget() {
	for _, t := range s.tasks {
		t.close()
	}
	clear(s.tasks)
}

// serve answers until the sandbox has ended, or the Broker is closed.
func (s *server) serve() {
	// On a thread of its own: the kernel wakes it on the processor of the caller.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.host = here()
	s.tasks = make(map[uint32]*task, maxTasks)
	defer s.forget()
	next, stop := s.b.observer.Next, int(s.b.stop)
	if next == nil {
		next = s.next
	}
	for n := next(s.l, stop); n != nil; n = next(s.l, stop) {
		s.handle(n)
	}
}

// next waits for a call. Nil: all is to end.
func (s *server) next(l notify.Listener, stop int) *notify.Notification {
	for l.Wait(stop) {
		if l.Receive(&s.n) == 0 {
			return &s.n
		}
	}
	return nil
}

// here identifies the network namespace of this thread. 0: unknown.
func here() uint64 {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	s := sys.FD(fd)
	defer s.Close()
	return cookie(s)
}

// handle answers one system call, or starts a goroutine that does.
func (s *server) handle(n *notify.Notification) {
	switch n.NR {
	case unix.SYS_SOCKET:
		s.socket(n)
	case unix.SYS_CONNECT:
		s.b.observer.Look(n)
		s.connect(n)
	case unix.SYS_BIND:
		s.b.observer.Look(n)
		s.bind(n)
	case unix.SYS_LISTEN:
		s.listen(n)
	case unix.SYS_SETSOCKOPT:
		s.join(n)
	case unix.SYS_SENDTO:
		s.b.observer.Look(n)
		s.sendTo(n)
	case unix.SYS_SENDMSG:
		s.sendMessages(n, 1, sizeofMsghdr)
	case unix.SYS_SENDMMSG:
		// As the kernel has it, sendmmsg(2).
		s.sendMessages(n, int(min(uint32(n.Args[2]), maxMessages)), sizeofMmsghdr)
	default:
		s.b.observer.Handle(s.l, n)
	}
}

// refuse answers calls that nobody handles.
func refuse(l notify.Listener, n *notify.Notification) { l.Answer(n.ID, syscall.ENOSYS) }
