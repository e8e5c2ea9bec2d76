//go:build linux

package wall

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
)

// TCP without a network namespace. Programs test their servers on loopback addresses. The sockets belong to the host's
// network, so the Deputy makes, binds and connects them:
//
//   - It binds them only to loopback addresses, even if a program asks for all addresses.
//   - It connects them only to sockets that it made for the same command. It asks the kernel which socket listens on a
//     port, before and after it connects. If that is another socket at either time, it ends the connection before the
//     command gets it.
//
// unix.go has the same for unix sockets.
//
// The inode number tells which socket a descriptor of the command refers to. The Deputy keeps a copy of each socket
// until the socket is connected or listens. After that, no call on the socket needs a check.

// socketCalls are the calls on sockets that the Deputy is told of.
var socketCalls = [...]uint32{unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_CONNECT}

// maxIdle is how many copies of sockets the Deputy keeps that are neither connected nor listening.
const maxIdle = 512

type sockets struct {
	mu      sync.Mutex
	idle    map[uint64]sys.FD     // sockets that are neither connected nor listening, by inode; nil: the command has ended
	order   []uint64              // the keys of idle, the oldest first
	bound   map[uint64]bool       // sockets that were bound, without those that sweep has forgotten
	swept   int                   // how many the last sweep has left
	pending map[sys.FD]uint64     // the inodes of sockets that are being connected
	files   map[uint64]socketFile // the files of unix sockets that listen
	queries map[uint64]*os.File   // the Deputy's ends of sockets for DNS queries, by the inode of the command's end
	running sync.WaitGroup
}

// handleSocket answers a call if it is one of socketCalls, and reports whether it was one.
func (d *Deputy) handleSocket(l notify.Listener, n *notify.Notification) bool {
	s := &d.sockets
	switch uint32(n.NR) {
	case unix.SYS_SOCKET:
		d.socket(l, n)
		return true
	case unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_CONNECT:
	default:
		return false
	}
	ino, fd, e := s.find(l, n)
	switch {
	case e != 0:
		l.Answer(n.ID, e)
	case s.forQueries(ino):
		l.Answer(n.ID, queryCall(n))
	case uint32(n.NR) == unix.SYS_BIND && fd != sys.None && isUnix(fd):
		// The kernel carries it out, with whatever address is in memory then. The command's Landlock domain says where it
		// can make a name, and allows no port. A socket without a name in a directory cannot listen (listenUnix).
		l.Proceed(n.ID)
	case uint32(n.NR) == unix.SYS_BIND:
		l.Answer(n.ID, s.bind(n, ino, fd))
	case uint32(n.NR) == unix.SYS_LISTEN:
		l.Answer(n.ID, s.listen(n, ino, fd))
	case fd != sys.None && isUnix(fd):
		d.connectUnix(l, n, ino)
	default:
		d.connect(l, n, ino, fd)
	}
	return true
}

// close ends pending connections and closes all copies. The command has ended.
func (s *sockets) close() {
	s.mu.Lock()
	for fd := range s.pending {
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
	}
	for _, fd := range s.idle {
		fd.Close()
	}
	for _, f := range s.queries {
		_ = f.Close()
	}
	s.idle = nil
	s.mu.Unlock()
	s.running.Wait()
}

// socket makes a socket for the caller.
func (d *Deputy) socket(l notify.Listener, n *notify.Notification) {
	s := &d.sockets
	domain, kind, proto := int(int32(n.Args[0])), int(int32(n.Args[1])), int(int32(n.Args[2]))
	switch {
	case domain == unix.AF_UNIX:
		if e := ofUnix(kind, proto); e != 0 {
			l.Answer(n.ID, e)
			return
		}
		proto = 0
	case domain != unix.AF_INET && domain != unix.AF_INET6:
		l.Answer(n.ID, syscall.EAFNOSUPPORT)
		return
	case d.Outside != nil && kind&seccomp.SockTypeMask == unix.SOCK_DGRAM && (proto == 0 || proto == unix.IPPROTO_UDP):
		d.querySocket(l, n, kind)
		return
	case kind&seccomp.SockTypeMask != unix.SOCK_STREAM:
		l.Answer(n.ID, syscall.EACCES)
		return
	case proto != 0 && proto != unix.IPPROTO_TCP:
		l.Answer(n.ID, syscall.EPROTONOSUPPORT)
		return
	default:
		proto = unix.IPPROTO_TCP
	}
	made, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		l.Answer(n.ID, errnoOf(err))
		return
	}
	fd := sys.FD(made)
	var st unix.Stat_t
	if err := unix.Fstat(made, &st); err != nil {
		fd.Close()
		l.Answer(n.ID, errnoOf(err))
		return
	}
	s.keep(st.Ino, fd)
	if e := l.Give(n.ID, made, kind&unix.SOCK_CLOEXEC != 0); e != 0 {
		s.drop(st.Ino)
		l.Answer(n.ID, e)
	}
}

func (s *sockets) keep(ino uint64, fd sys.FD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle, s.bound, s.pending = make(map[uint64]sys.FD), make(map[uint64]bool), make(map[sys.FD]uint64)
		s.files = make(map[uint64]socketFile)
	}
	s.idle[ino] = fd
	for s.order = append(s.order, ino); len(s.order) > maxIdle; {
		oldest := s.order[0]
		s.order = s.order[1:]
		if fd, ok := s.idle[oldest]; ok {
			fd.Close()
			delete(s.idle, oldest)
		}
	}
}

// giveBack keeps a socket that could not be connected, so that it can be tried again, unless the command has ended. It
// closes no other one: the Deputy's thread may be using that.
func (s *sockets) giveBack(ino uint64, fd sys.FD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil || len(s.idle) >= maxIdle {
		fd.Close()
		return
	}
	s.idle[ino] = fd
	if !slices.Contains(s.order, ino) {
		s.order = append(s.order, ino)
	}
}

// take removes a copy and returns it. The caller closes it.
func (s *sockets) take(ino uint64) (fd sys.FD, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, ok = s.idle[ino]
	delete(s.idle, ino)
	return fd, ok
}

func (s *sockets) drop(ino uint64) {
	if fd, ok := s.take(ino); ok {
		fd.Close()
	}
}

// find returns the copy of the socket that the first argument of a call refers to. None: the Deputy has no copy.
func (s *sockets) find(l notify.Listener, n *notify.Notification) (ino uint64, fd sys.FD, e syscall.Errno) {
	link, err := os.Readlink(notify.Proc(n.PID, "fd/"+strconv.Itoa(int(int32(n.Args[0])))))
	if err != nil {
		return 0, sys.None, syscall.EBADF
	}
	text, isSocket := strings.CutPrefix(link, "socket:[")
	ino, err = strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	if !isSocket || err != nil {
		return 0, sys.None, syscall.ENOTSOCK
	}
	if !l.Valid(n.ID) {
		return 0, sys.None, syscall.EINTR
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fd, ok := s.idle[ino]
	if !ok {
		return ino, sys.None, 0
	}
	return ino, fd, 0
}

// address reads the address argument of bind(2) or connect(2).
func address(n *notify.Notification) (at netip.AddrPort, e syscall.Errno) {
	var raw [unix.SizeofSockaddrInet6]byte
	size := min(uint64(uint32(n.Args[2])), uint64(len(raw)))
	if size < unix.SizeofSockaddrInet4 {
		return at, syscall.EINVAL
	}
	if e := notify.ReadMemory(n.PID, uintptr(n.Args[1]), raw[:size]); e != 0 {
		return at, e
	}
	port := binary.BigEndian.Uint16(raw[2:])
	switch family := binary.NativeEndian.Uint16(raw[:]); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), port), 0
	case family == unix.AF_INET6 && size >= unix.SizeofSockaddrInet6-4:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])), port), 0
	}
	return at, syscall.EAFNOSUPPORT
}

// loopback returns the loopback address to use in place of an address. The zero Addr: there is none.
func loopback(fd sys.FD, a netip.Addr) netip.Addr {
	domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	only, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	four := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	switch {
	case err != nil:
	case domain == unix.AF_INET && a.Is4() && a.IsUnspecified():
		return four
	case domain == unix.AF_INET6 && a == netip.IPv6Unspecified() && only == 0:
		return netip.AddrFrom16(four.As16()) // programs reach it by either protocol
	case domain == unix.AF_INET6 && a == netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	case a.Unmap().IsLoopback() && (domain == unix.AF_INET) == a.Is4():
		return a
	}
	return netip.Addr{}
}

func sockaddr(a netip.Addr, port uint16) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)}
}

func (s *sockets) bind(n *notify.Notification, ino uint64, fd sys.FD) syscall.Errno {
	at, e := address(n)
	switch {
	case e != 0:
		return e
	case fd == sys.None:
		return syscall.EINVAL // it is bound already
	}
	return s.bindTo(ino, fd, at)
}

func (s *sockets) bindTo(ino uint64, fd sys.FD, at netip.AddrPort) syscall.Errno {
	own := loopback(fd, at.Addr())
	if !own.IsValid() {
		return syscall.EADDRNOTAVAIL
	}
	s.mu.Lock()
	if len(s.bound) >= 2*s.swept+maxIdle {
		s.sweep()
	}
	s.bound[ino] = true // before anybody can connect to it
	s.mu.Unlock()
	return errnoOf(unix.Bind(int(fd), sockaddr(own, at.Port())))
}

// sweep forgets sockets that do not listen and can no longer do so. Otherwise a command could fill this process's
// memory with them, and their inode numbers can become those of somebody else's sockets. The caller holds the mutex.
func (s *sockets) sweep() {
	of := make(map[uint64]bool)
	if !listeners(func(_ uint16, ino uint64) { of[ino] = true }) {
		return
	}
	for ino := range s.idle {
		of[ino] = true
	}
	for _, ino := range s.pending {
		of[ino] = true
	}
	maps.DeleteFunc(s.bound, func(ino uint64, _ bool) bool { return !of[ino] })
	s.swept = len(s.bound)
}

// listen makes a socket listen. The kernel would bind an unbound socket to all addresses, so it is bound first.
func (s *sockets) listen(n *notify.Notification, ino uint64, fd sys.FD) syscall.Errno {
	s.mu.Lock()
	bound := s.bound[ino] || s.files[ino] != socketFile{}
	s.mu.Unlock()
	switch {
	case fd != sys.None && isUnix(fd):
		return s.listenUnix(ino, fd, int(int32(n.Args[1])))
	case fd == sys.None && bound:
		return 0 // it listens already
	case fd == sys.None:
		return syscall.EINVAL
	case !bound:
		any := netip.IPv4Unspecified()
		if domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && domain == unix.AF_INET6 {
			any = netip.IPv6Unspecified()
		}
		if e := s.bindTo(ino, fd, netip.AddrPortFrom(any, 0)); e != 0 {
			return e
		}
	}
	e := errnoOf(unix.Listen(int(fd), int(int32(n.Args[1]))))
	if e == 0 {
		s.drop(ino)
	}
	return e
}

// connect connects a TCP socket to another one of the same command, or to what Outside allows.
func (d *Deputy) connect(l notify.Listener, n *notify.Notification, ino uint64, fd sys.FD) {
	s := &d.sockets
	at, e := address(n)
	if e == 0 && fd == sys.None {
		e = syscall.EISCONN
		if s.isPending(ino) {
			e = syscall.EALREADY
		}
	}
	if e != 0 {
		l.Answer(n.ID, e)
		return
	}
	local := loopback(fd, at.Addr())
	if local.IsValid() {
		if server := s.server(at.Port()); server != 0 {
			s.begin(l, n.ID, ino, func(fd sys.FD, _ func(syscall.Errno)) syscall.Errno {
				return s.connectTo(fd, sockaddr(local, at.Port()), at.Port(), server)
			})
			return
		}
		at = netip.AddrPortFrom(local, at.Port())
	}
	switch {
	case d.Outside != nil:
		d.reach(l, n, ino, fd, at)
	case local.IsValid():
		l.Answer(n.ID, syscall.ECONNREFUSED)
	default:
		l.Answer(n.ID, syscall.ENETUNREACH)
	}
}

// isPending reports whether a socket is being connected.
func (s *sockets) isPending(ino uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.pending {
		if other == ino {
			return true
		}
	}
	return false
}

// maxPending is how many connections can be pending at once. Each takes a thread of this process.
const maxPending = 256

// begin connects a socket on another goroutine, as that may take a while, and answers the call. False: it has refused
// to. If connect calls early, the call is answered then; what it returns is still whether the socket is connected.
func (s *sockets) begin(l notify.Listener, id, ino uint64, connect func(fd sys.FD, early func(syscall.Errno)) syscall.Errno) bool {
	s.mu.Lock()
	fd, ok := s.idle[ino]
	full := len(s.pending) >= maxPending
	if ok && !full {
		delete(s.idle, ino)
		s.pending[fd] = ino
	}
	s.mu.Unlock()
	switch {
	case !ok:
		l.Answer(id, syscall.EALREADY)
		return false
	case full:
		l.Answer(id, syscall.EAGAIN)
		return false
	}
	s.running.Go(func() {
		answered := false
		e := connect(fd, func(e syscall.Errno) {
			answered = true
			l.Answer(id, e)
		})
		s.mu.Lock()
		delete(s.pending, fd)
		s.mu.Unlock()
		if e != 0 {
			s.giveBack(ino, fd)
		} else {
			fd.Close()
		}
		if !answered {
			l.Answer(id, e)
		}
	})
	return true
}

// connectPatience is how long the connection of a non-blocking socket on the loopback device may take.
const connectPatience = time.Second

// connectTo connects to a port, and checks that server still listens on it.
func (s *sockets) connectTo(fd sys.FD, to unix.Sockaddr, port uint16, server uint64) syscall.Errno {
	err := unix.Connect(int(fd), to)
	if err == unix.EINPROGRESS {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		// The Go runtime sends signals to its threads, and an interrupted poll(2) says nothing about the connection.
		err = unix.EINTR
		for end := time.Now().Add(connectPatience); err == unix.EINTR; {
			_, err = unix.Poll(polled, int(max(0, time.Until(end).Milliseconds())))
		}
		if err != nil || polled[0].Revents == 0 {
			return s.disconnect(fd, syscall.ETIMEDOUT)
		}
		failed, gerr := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err = gerr; gerr == nil && failed != 0 {
			err = syscall.Errno(failed)
		}
	}
	if err != nil {
		return errnoOf(err)
	}
	if s.server(port) != server {
		return s.disconnect(fd, syscall.ECONNREFUSED)
	}
	return 0
}

// disconnect ends a connection, or the attempt to make one, and returns e.
func (*sockets) disconnect(fd sys.FD, e syscall.Errno) syscall.Errno {
	none := [unix.SizeofSockaddrInet4]byte{} // AF_UNSPEC
	if _, _, failed := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), uintptr(len(none))); failed != 0 {
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
	}
	return e
}

// server returns the inode of the socket that listens on a port. It is 0 if there is none, or if one of them is not the
// command's.
func (s *sockets) server(port uint16) (found uint64) {
	others := false
	ok := listeners(func(p uint16, ino uint64) {
		if p != port {
			return
		}
		s.mu.Lock()
		others = others || !s.bound[ino]
		s.mu.Unlock()
		found = ino
	})
	if !ok || others {
		return 0
	}
	return found
}

// listeners calls f for each TCP socket that listens, with its port and its inode, which is 0 if it cannot be read. It
// returns false if the kernel's list cannot be read.
func listeners(f func(port uint16, ino uint64)) bool {
	for _, name := range [...]string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(name)
		if err != nil {
			if os.IsNotExist(err) {
				continue // a kernel without IPv6
			}
			return false
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			const listening = "0A"
			if len(fields) < 10 || fields[3] != listening {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				continue
			}
			ino, _ := strconv.ParseUint(fields[9], 10, 64)
			f(uint16(port), ino)
		}
	}
	return true
}
