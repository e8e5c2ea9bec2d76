package broker

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A server is one thread that answers.
type server struct {
	b *Broker
	l listener
	n notification

	tasks map[uint32]*task // who has called before

	inward bool // whether the last TCP socket was used inside of the sandbox

	usual4, usual6 usual // see usual
}

// maxTasks is how many callers are remembered.
const maxTasks = 16

// copy is a copy of a caller's descriptor, and the caller, which stays the server's. The caller's
// notification has to be valid after it: else its number may be somebody else's by now.
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

// forget forgets all callers.
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
	defer quiet()()
	s.tasks = make(map[uint32]*task, maxTasks)
	defer s.forget()
	for s.wait() {
		if s.l.receive(&s.n) == 0 {
			s.handle()
		}
	}
}

// quiet has no signal come to this thread until it is undone, such as the Go runtime's, which can
// do without: one that came while a descriptor is given would end the caller's socket(2) with 0, see
// seccomp_notify_addfd in kernel/seccomp.c. (So does a stop, SIGSTOP or a freezer, which nobody can refuse: one in a hundred under a
// command that does nothing but make sockets. In two steps, descriptor and answer, it does not, and a request takes 15 % longer.) Not those that a fault in the thread itself is, and not those by which
// syscall.AllThreadsSyscall (33) and the setuid(2) of C libraries (glibc's 33, musl's 34) have all threads do
// something, and wait until they have.
func quiet() (undo func()) {
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	for _, s := range [...]unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, 32, 33, 34} {
		all.Val[0] &^= 1 << (s - 1)
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before)
	return func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }
}

// wait waits for a system call, and reports that there is one.
func (s *server) wait() bool {
	polled := [2]unix.PollFd{{Fd: int32(s.l), Events: unix.POLLIN}, {Fd: int32(s.b.stop), Events: unix.POLLIN}}
	for {
		_, _, e := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 2, 0, 0, 0, 0)
		switch {
		case e == syscall.EINTR:
			continue
		case e != 0 || polled[1].Revents != 0:
			return false
		case polled[0].Revents&unix.POLLIN != 0:
			return true
		case polled[0].Revents != 0: // POLLHUP: nobody is left
			return false
		}
	}
}

// handle answers one system call, or has somebody answer it who has time.
func (s *server) handle() {
	n := &s.n
	switch n.nr {
	case unix.SYS_SOCKET:
		s.socket(n)
	case unix.SYS_CONNECT:
		s.connect(n)
	case unix.SYS_BIND:
		s.bind(n)
	case unix.SYS_LISTEN:
		s.listen(n)
	case unix.SYS_SETSOCKOPT:
		s.join(n)
	case unix.SYS_SENDTO:
		s.sendTo(n)
	case unix.SYS_SENDMSG:
		s.sendMessages(n, 1, sizeofMsghdr)
	case unix.SYS_SENDMMSG:
		// As the kernel has it, sendmmsg(2).
		s.sendMessages(n, int(min(uint32(n.args[2]), maxMessages)), sizeofMmsghdr)
	default:
		s.l.answer(n.id, syscall.ENOSYS)
	}
}
