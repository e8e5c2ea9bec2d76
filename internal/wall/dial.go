//go:build linux

package wall

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// A dial is a connection that is being made.
type dial struct {
	fd     sys.FD
	caller uint64    // the call that waits for it; 0: none
	thread uint32    // that made the call
	until  time.Time // how long it waits; zero: without a limit
}

// wait records which call waits for the connection. The caller holds the mutex.
func (p *dial) wait(n *notify.Notification) {
	p.caller, p.thread, p.until = n.ID, n.PID, time.Time{}
	if tv, err := unix.GetsockoptTimeval(int(p.fd), unix.SOL_SOCKET, unix.SO_SNDTIMEO); err == nil && tv.Nano() > 0 {
		p.until = time.Now().Add(time.Duration(tv.Nano()))
	}
}

// join returns the result of a further connect(2) on a socket, as the kernel would, or makes the call wait. If the
// connection has failed meanwhile, it returns the copy of the socket instead.
func (s *sockets) join(n *notify.Notification, ino uint64) (fd sys.FD, joined bool, e syscall.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[ino]
	if p == nil {
		if fd, ok := s.idle[ino]; ok {
			return fd, false, 0
		}
		return sys.None, false, syscall.EISCONN
	}
	if ready(p.fd, 0) {
		if !failed(p.fd) {
			return sys.None, false, syscall.EISCONN
		}
		pending, err := unix.GetsockoptInt(int(p.fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return sys.None, false, s.disconnect(p.fd, cmp.Or(errnoOf(err), syscall.Errno(pending), syscall.EALREADY))
	}
	flags, err := unix.FcntlInt(uintptr(p.fd), unix.F_GETFL, 0)
	if p.caller != 0 || err != nil || flags&unix.O_NONBLOCK != 0 {
		return sys.None, false, syscall.EALREADY
	}
	p.wait(n)
	return sys.None, true, 0
}

// TurnedAway returns how many connects failed with EAGAIN because MaxWaiting others were waiting for an answer.
func (d *Deputy) TurnedAway() int {
	if d == nil {
		return 0
	}
	d.sockets.mu.Lock()
	defer d.sockets.mu.Unlock()
	return d.sockets.turnedAway
}

// MaxWaiting is how many connections can be pending at once. Each takes a thread of this process.
const MaxWaiting = 256

// begin connects a socket on another goroutine, because that may take a while, and answers the call. False: it has
// refused to. connect may answer the call before it returns the result.
func (s *sockets) begin(l notify.Listener, n *notify.Notification, ino uint64, connect func(*dial) syscall.Errno) bool {
	s.mu.Lock()
	fd, ok := s.idle[ino]
	full := len(s.pending) >= MaxWaiting
	p := &dial{fd: fd}
	if ok && !full {
		delete(s.idle, ino)
		s.pending[ino] = p
		p.wait(n)
	} else if ok {
		s.turnedAway++
	}
	s.mu.Unlock()
	switch {
	case !ok:
		l.Answer(n.ID, syscall.EALREADY)
		return false
	case full:
		l.Answer(n.ID, syscall.EAGAIN)
		return false
	}
	s.running.Go(func() {
		e := connect(p)
		s.mu.Lock()
		delete(s.pending, ino)
		if e != 0 && e != syscall.EISCONN {
			s.giveBack(ino, fd)
		} else {
			fd.Close()
		}
		s.mu.Unlock()
		s.answer(l, p, e)
	})
	return true
}

// answer ends the call that waits for a connection, if there is one.
func (s *sockets) answer(l notify.Listener, p *dial, e syscall.Errno) {
	s.mu.Lock()
	caller := p.caller
	p.caller, p.until = 0, time.Time{}
	s.mu.Unlock()
	if caller != 0 {
		l.Answer(caller, e)
	}
}

// waits reports whether a call waits for a connection.
func (s *sockets) waits(p *dial) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.caller != 0
}

// lookEvery is how often the Deputy checks whether a call still waits, and whether its thread has a signal: the kernel
// does not interrupt the call itself (see package nsexec).
const lookEvery = notify.LookEvery

// wait waits until a socket is connected, or has failed, and returns 0, or what stops the waiting.
func (s *sockets) wait(l notify.Listener, p *dial) syscall.Errno {
	for !ready(p.fd, lookEvery) {
		if e := s.stops(l, p); e != 0 {
			return e
		}
	}
	return 0
}

// stops says why a call waits no longer. Restart: the waiting thread has a signal. EINPROGRESS: its time is over.
// EINTR: it was killed. ESHUTDOWN: the command has ended.
func (s *sockets) stops(l notify.Listener, p *dial) syscall.Errno {
	s.mu.Lock()
	ended, caller, thread, until := s.idle == nil, p.caller, p.thread, p.until
	s.mu.Unlock()
	switch {
	case ended:
		return syscall.ESHUTDOWN
	case !until.IsZero() && !time.Now().Before(until):
		return syscall.EINPROGRESS
	case caller == 0:
		return 0
	}
	status, err := os.ReadFile(notify.Proc(thread, "status"))
	switch {
	case !l.Valid(caller):
		return syscall.EINTR
	case err == nil && notify.Signalled(status):
		return notify.Restart
	}
	return 0
}

// ready waits for a while, and reports whether a socket is connected or has failed.
func ready(fd sys.FD, wait time.Duration) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(wait.Milliseconds()))
	return n > 0 && err == nil
}

// failed reports whether a socket that is ready is not connected.
func failed(fd sys.FD) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	_, err := unix.Poll(polled, 0)
	return err != nil || polled[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// attempt is connect(2) without waiting, and reports whether the socket is non-blocking. It makes a blocking socket
// non-blocking for a moment, which only other threads of the command can see.
func attempt(fd sys.FD, to unix.Sockaddr) (nonblock bool, e syscall.Errno) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return false, errnoOf(err)
	}
	if nonblock = flags&unix.O_NONBLOCK != 0; !nonblock {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_NONBLOCK); err != nil {
			return false, errnoOf(err)
		}
		defer func() { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags) }()
	}
	return nonblock, errnoOf(unix.Connect(int(fd), to))
}
