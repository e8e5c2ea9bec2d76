//go:build linux

package wall

import (
	"cmp"
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
//   - It connects them only to sockets that it made for the same command. It asks the kernel which socket listens at an
//     address, before and after it connects. If that is another socket afterwards, because another program took the
//     port just then, it ends the connection.
//
// unix.go has the same for unix sockets.
//
// The inode number tells which socket a descriptor of the command refers to. The Deputy keeps a copy of each socket
// until the socket is connected or listens. After that, no call on the socket needs a check.

// socketCalls are the calls on sockets that the Deputy receives.
var socketCalls = [...]uint32{unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_CONNECT}

// maxIdle is how many copies of sockets the Deputy keeps that are neither connected nor listening.
const maxIdle = 512

type sockets struct {
	mu      sync.Mutex
	idle    map[uint64]sys.FD     // sockets that are neither connected nor listening, by inode; nil: the command has ended
	order   []uint64              // the keys of idle, the oldest first
	bound   map[uint64]uint16     // the ports of sockets that were bound, without those that sweep has forgotten
	swept   int                   // the length of bound after the last sweep
	pending map[uint64]*dial      // the connections that are being made, by the socket's inode
	files   map[uint64]socketFile // the files of unix sockets that listen
	queries map[uint64]*os.File   // the Deputy's ends of sockets for DNS queries, by the inode of the command's end
	running sync.WaitGroup

	// using is held by who uses the number of a copy that is idle, which begin can close on another thread.
	using sync.Mutex

	turnedAway int // connects that failed because MaxWaiting others were waiting
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
	s.using.Lock()
	defer s.using.Unlock()
	ino, fd, e := s.find(l, n)
	switch {
	case e != 0:
		l.Answer(n.ID, e)
	case s.forQueries(ino):
		l.Answer(n.ID, queryCall(n))
	case uint32(n.NR) == unix.SYS_BIND && fd != sys.None && isUnix(fd):
		// The kernel carries it out, with whatever address is in memory then. The command's Landlock domain
		// says where it can make a name, and allows no port. A socket without a name in a directory cannot
		// listen (listenUnix).
		l.Proceed(n.ID)
	case uint32(n.NR) == unix.SYS_BIND:
		l.Answer(n.ID, s.bind(n, ino, fd))
	case uint32(n.NR) == unix.SYS_LISTEN:
		l.Answer(n.ID, s.listen(n, ino, fd))
	case fd != sys.None && isUnix(fd):
		d.aside.answer(l, *n, func(n *notify.Notification) { d.connectUnix(l, n, ino) })
	default:
		d.connect(l, n, ino, fd)
	}
	return true
}

// close ends pending connections and closes all copies. The command has ended.
func (s *sockets) close() {
	s.mu.Lock()
	for _, fd := range s.idle {
		fd.Close()
	}
	for _, f := range s.queries {
		_ = f.Close()
	}
	s.idle = nil
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	for { // more than once, because connect(2) may come after shutdown(2)
		s.mu.Lock()
		for _, p := range s.pending {
			_ = unix.Shutdown(int(p.fd), unix.SHUT_RDWR)
		}
		s.mu.Unlock()
		select {
		case <-done:
			return
		case <-time.After(lookEvery):
		}
	}
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
		s.idle, s.bound, s.pending = make(map[uint64]sys.FD), make(map[uint64]uint16), make(map[uint64]*dial)
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

// giveBack keeps the copy of a socket that could not be connected for the next attempt, unless the command has ended.
// It closes no other copy, because the Deputy's thread may be using it. The caller holds the mutex.
func (s *sockets) giveBack(ino uint64, fd sys.FD) {
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
	s.mu.Unlock()
	if err := unix.Bind(int(fd), sockaddr(own, at.Port())); err != nil {
		return errnoOf(err)
	}
	return s.setBound(ino, fd)
}

// setBound remembers the port that a socket is bound to. 0: the kernel chooses one when it listens.
func (s *sockets) setBound(ino uint64, fd sys.FD) syscall.Errno {
	at, err := unix.Getsockname(int(fd))
	if err != nil {
		return errnoOf(err)
	}
	port := 0
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		port = at.Port
	case *unix.SockaddrInet6:
		port = at.Port
	}
	s.mu.Lock()
	s.bound[ino] = uint16(port)
	s.mu.Unlock()
	return 0
}

// sweep forgets sockets that do not listen and can no longer do so. Otherwise a command could fill this process's
// memory with them, and their inode numbers can become those of somebody else's sockets. The caller holds the mutex.
func (s *sockets) sweep() {
	of := make(map[uint64]bool)
	if !listeners(func(ino uint64) { of[ino] = true }) {
		return
	}
	for ino := range s.idle {
		of[ino] = true
	}
	for ino := range s.pending {
		of[ino] = true
	}
	maps.DeleteFunc(s.bound, func(ino uint64, _ uint16) bool { return !of[ino] })
	s.swept = len(s.bound)
}

// listen makes a socket listen. The kernel would bind an unbound socket to all addresses, so it is bound first.
func (s *sockets) listen(n *notify.Notification, ino uint64, fd sys.FD) syscall.Errno {
	s.mu.Lock()
	_, bound := s.bound[ino]
	bound = bound || s.files[ino] != socketFile{}
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
		e = s.setBound(ino, fd)
		s.drop(ino)
	}
	return e
}

// connect connects a TCP socket to another one of the same command, or to what Outside allows.
func (d *Deputy) connect(l notify.Listener, n *notify.Notification, ino uint64, fd sys.FD) {
	s := &d.sockets
	at, e := address(n)
	if e == 0 && fd == sys.None {
		var joined bool
		if fd, joined, e = s.join(n, ino); joined {
			return
		}
	}
	if e != 0 {
		l.Answer(n.ID, e)
		return
	}
	local := loopback(fd, at.Addr())
	if local.IsValid() {
		at = netip.AddrPortFrom(local, at.Port())
		if server := s.server(at); server != 0 {
			s.begin(l, n, ino, func(p *dial) syscall.Errno { return s.connectTo(l, p, at, server) })
			return
		}
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

// connectPatience is how long the connection of a non-blocking socket on the loopback device may take.
const connectPatience = time.Second

// connectTo connects to a loopback address, and checks that server still listens there.
func (s *sockets) connectTo(l notify.Listener, p *dial, to netip.AddrPort, server uint64) syscall.Errno {
	nonblock, e := attempt(p.fd, sockaddr(to.Addr(), to.Port()))
	if nonblock {
		s.mu.Lock()
		p.until = time.Now().Add(connectPatience)
		s.mu.Unlock()
	}
	if e == syscall.EINPROGRESS || e == syscall.EINTR {
		e = s.wait(l, p)
		if e == syscall.EINPROGRESS && nonblock {
			e = syscall.ETIMEDOUT
		}
		if e != 0 {
			return s.disconnect(p.fd, e)
		}
		pending, err := unix.GetsockoptInt(int(p.fd), unix.SOL_SOCKET, unix.SO_ERROR)
		e = cmp.Or(errnoOf(err), syscall.Errno(pending))
	}
	if e == 0 && s.server(to) != server {
		return s.disconnect(p.fd, syscall.ECONNREFUSED)
	}
	return e
}

// disconnect ends a connection, or the attempt to make one, and returns e.
func (*sockets) disconnect(fd sys.FD, e syscall.Errno) syscall.Errno {
	none := [unix.SizeofSockaddrInet4]byte{} // AF_UNSPEC
	if _, _, failed := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), uintptr(len(none))); failed != 0 {
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
	}
	return e
}

// server returns the inode of the command's socket that listens at a loopback address. It is 0 if there is none, or if
// it is not the command's.
func (s *sockets) server(at netip.AddrPort) uint64 {
	ino := uint64(listenerAt(at))
	s.mu.Lock()
	defer s.mu.Unlock()
	if port, ok := s.bound[ino]; !ok || port != at.Port() { // the kernel uses inode numbers again
		return 0
	}
	return ino
}

// listeners calls f for each TCP socket that listens, with its inode, which is 0 if it cannot be read. It can leave out
// some (see listenerAt). It returns false if the kernel's list cannot be read.
func listeners(f func(ino uint64)) bool {
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
			ino, _ := strconv.ParseUint(fields[9], 10, 64)
			f(ino)
		}
	}
	return true
}
