//go:build linux

package notify

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Server answers the calls of one sandbox. Until the first call, the runtime's poller waits, which takes no thread.
type Server struct {
	// Handle answers a call. All calls come on one thread.
	Handle func(l Listener, n *Notification)
	// On makes a thread ready to serve, and calls serve on it. False: it could not, and serve was not called; the
	// kernel then carries out all calls. Nil: every thread is ready.
	On func(serve func()) bool

	running sync.WaitGroup
	mu      sync.Mutex
	ended   bool
	idle    *os.File // the listener, until the first call
	stop    int      // an eventfd, from then on: readable when all is to end
	awoken  bool
}

// Start begins to serve a listener, and closes it. If it is nil, there are no calls.
func (s *Server) Start(l *os.File) error {
	if l == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, err := unix.FcntlInt(l.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	_ = l.Close()
	if err != nil {
		return err
	}
	if s.ended {
		return unix.Close(fd)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return err
	}
	s.idle = os.NewFile(uintptr(fd), "listener")
	s.running.Add(1)
	go s.await(s.idle)
	return nil
}

// Close must be called when the sandbox has ended. It waits for the call that is being answered, with Patience.
func (s *Server) Close() {
	s.mu.Lock()
	s.ended = true
	if s.idle != nil {
		_ = s.idle.Close()
	}
	awoken := s.awoken
	if s.awoken = false; awoken {
		_, _ = unix.Write(s.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	s.mu.Unlock()
	Ended(s.running.Wait, func() {
		if awoken {
			_ = unix.Close(s.stop)
		}
	})
}

// await waits for the first call, and serves from then on.
func (s *Server) await(f *os.File) {
	defer s.running.Done()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	if raw.Read(readable) != nil {
		return // it was closed
	}
	l, ok := s.awake(f, raw)
	for !ok && raw.Read(readable) == nil {
		// Without a thread that waits, for lack of descriptors. If the listener were closed, all calls would
		// fail (ENOSYS).
		more := false
		if raw.Control(func(fd uintptr) { more = Listener(fd).passOne() }) != nil || !more {
			return
		}
		l, ok = s.awake(f, raw)
	}
	if !ok {
		return
	}
	defer unix.Close(int(l))
	serve := func() { s.serve(l, s.Handle) }
	switch {
	case s.On == nil:
		serve()
	case !s.On(serve):
		s.serve(l, func(l Listener, n *Notification) { l.Proceed(n.ID) })
	}
}

// awake gets the listener from the poller, which each call would wake. False: there are not enough descriptors, or all
// is to end.
func (s *Server) awake(f *os.File, raw syscall.RawConn) (l Listener, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, false
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, false
	}
	fd := -1
	if e := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); e != nil || err != nil {
		_ = unix.Close(stop)
		return 0, false
	}
	_ = f.Close()
	s.idle, s.stop, s.awoken = nil, stop, true
	return Listener(fd), true
}

// passOne lets the kernel carry out a call that waits. False: no process is left that could make one.
func (l Listener) passOne() bool {
	p := [1]unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
	if n, err := unix.Poll(p[:], 0); err != nil || n == 0 {
		return err == nil || err == unix.EINTR
	}
	var n Notification
	if p[0].Revents&unix.POLLIN != 0 && l.Receive(&n) == 0 {
		l.Proceed(n.ID)
	}
	return p[0].Revents&unix.POLLIN != 0
}

// readable reports whether there is something to read, or the end.
func readable(fd uintptr) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n > 0
}

// serve answers calls until the sandbox has ended.
func (s *Server) serve(l Listener, handle func(l Listener, n *Notification)) {
	l.WakeHere()
	var n Notification
	for l.Wait(s.stop) {
		if l.Receive(&n) == 0 {
			handle(l, &n)
		}
	}
}
