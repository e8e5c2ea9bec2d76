//go:build linux

package notify

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Server answers the calls of one sandbox. Until the first call, the runtime's poller waits, which takes no thread.
type Server struct {
	// Handle answers a call. All calls come on one thread.
	Handle func(l Listener, n *Notification)
	// On makes a thread ready to serve, and calls serve on it. Nil: every thread is ready.
	On func(serve func())

	running sync.WaitGroup
	mu      sync.Mutex
	ended   bool
	idle    *os.File // the listener, until the first call
	stop    int      // an eventfd, from then on: readable when serve has to end
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

// Close must be called when the sandbox has ended. It waits for the call that is being answered.
func (s *Server) Close() {
	s.mu.Lock()
	s.ended = true
	if s.idle != nil {
		_ = s.idle.Close()
	}
	if s.awoken {
		_, _ = unix.Write(s.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	s.mu.Unlock()
	s.running.Wait()
	if s.awoken {
		_ = unix.Close(s.stop)
		s.awoken = false
	}
}

// await waits for the first call.
func (s *Server) await(f *os.File) {
	defer s.running.Done()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	if raw.Read(readable) != nil {
		return // it was closed
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	stop, err2 := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	// Otherwise each call would wake the poller.
	_ = f.Close()
	s.idle = nil
	if err == nil && err2 == nil {
		s.stop, s.awoken = stop, true
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	defer unix.Close(fd)
	switch {
	case err2 != nil:
	case s.On == nil:
		s.serve(Listener(fd))
	default:
		s.On(func() { s.serve(Listener(fd)) })
	}
}

// readable reports whether there is something to read, or the end.
func readable(fd uintptr) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n > 0
}

// serve answers calls until the sandbox has ended.
func (s *Server) serve(l Listener) {
	l.WakeHere()
	var n Notification
	for l.Wait(s.stop) {
		if l.Receive(&n) == 0 {
			s.Handle(l, &n)
		}
	}
}
