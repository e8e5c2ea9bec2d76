//go:build linux

package broker

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
)

// A seed makes sockets in the sandbox's network namespace, where a process outside cannot make any. It has two sockets
// of one family, which the sandbox made before the command ran. One listens for a moment, and the other connects to it.
// The accepted socket belongs to that namespace, too, and is like new after a disconnect.
type seed struct {
	mu               sync.Mutex
	domain           int
	socket, listener int
}

func seedSockets(domain int) []sandbox.Socket {
	s := sandbox.Socket{Domain: domain, Type: unix.SOCK_STREAM}
	return []sandbox.Socket{s, s}
}

func (s *seed) start(socket, listener int) error {
	s.socket, s.listener = socket, listener
	err := unix.SetNonblock(socket, true)
	if err == nil {
		err = unix.SetNonblock(listener, true)
	}
	return err
}

// make makes a TCP socket with O_NONBLOCK.
func (s *seed) make() (sys.FD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := unix.Listen(s.listener, seedBacklog); err != nil {
		return sys.None, err
	}
	defer func() { _ = disconnect(s.listener) }()
	at, err := unix.Getsockname(s.listener)
	if err != nil {
		return sys.None, err
	}
	if err := dial(s.socket, loopback(s.domain, uint16(portOf(at)))); err != nil {
		return sys.None, err
	}
	defer func() { _ = disconnect(s.socket) }()
	us, err := unix.Getsockname(s.socket)
	if err != nil {
		return sys.None, err
	}
	for {
		n, peer, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
		case unix.EAGAIN: // the other half of the handshake is under way
			if err := ready(s.listener, unix.POLLIN); err != nil {
				return sys.None, err
			}
			continue
		case unix.EINTR, unix.ECONNABORTED:
			continue
		default:
			return sys.None, err
		}
		fd := sys.FD(n)
		// The command can find the listener and connect to it too.
		if portOf(peer) == portOf(us) {
			if err := disconnect(n); err != nil {
				fd.Close()
				return sys.None, err
			}
			// That leaves ECONNRESET, which a new one has not, and who asks first gets.
			_, _ = option(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			return fd, nil
		}
		fd.Close()
	}
}

// seedBacklog is more than one, because the command may connect first.
const seedBacklog = 16

// loopback is a port of the loopback device.
func loopback(domain int, port uint16) unix.Sockaddr {
	if domain == unix.AF_INET {
		return &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	}
	return &unix.SockaddrInet6{Port: int(port), Addr: netip.IPv6Loopback().As16()}
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return -1
}

// dial connects a socket with O_NONBLOCK, and waits for the result.
func dial(fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	if err != unix.EINPROGRESS {
		return err
	}
	if err := ready(fd, unix.POLLOUT); err != nil {
		return err
	}
	pending, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && pending != 0 {
		err = unix.Errno(pending)
	}
	return err
}

func ready(fd int, event int16) error {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: event}}
	n := 0
	err := sys.Retry(func() (err error) {
		n, err = unix.Poll(p[:], int(insidePatience.Milliseconds()))
		return err
	})
	if err == nil && n == 0 {
		err = unix.ETIMEDOUT
	}
	return err
}

// insidePatience is how long a connect inside may take; only the command can delay it.
const insidePatience = time.Second

// disconnect makes a TCP socket as if it had never been connected.
func disconnect(fd int) error {
	var a sockaddr
	a.n = 16 // AF_UNSPEC
	if e := a.connect(fd); e != 0 {
		return e
	}
	return nil
}
