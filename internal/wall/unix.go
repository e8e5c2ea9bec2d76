//go:build linux

package wall

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/seccomp"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Unix sockets without a network namespace. Landlock decides where a socket may have a name, but not who connects to
// it. So the Deputy makes the sockets, and connects them only to sockets that listen for the same command:
//
//   - Before a socket listens, the Deputy asks the kernel which file it is bound to (sock_diag(7)). A socket that is
//     bound to no file, or to an abstract name, cannot listen.
//   - To connect a socket, the Deputy opens the file that the caller's path leads to, and compares it with these files.
//     It asks the kernel again whether the socket still listens there: as long as it does, no other file gets the
//     file's inode number. Then it connects to the open file.
//   - Subvolumes of btrfs have inode numbers of their own, and the kernel does not say in which one the file of a
//     socket is. A command can make files until one has the number of somebody else's in another subvolume. So the file
//     must be where the command may make files; and this process must have called listen(2) for the socket that was
//     connected to (SO_PEERCRED), or the connection is ended.
//
// There are no datagram sockets (SOCK_DGRAM), because each message can have an address of its own. socketpair(2) for
// datagrams makes a pair of SOCK_SEQPACKET instead, whose messages have no address.

// A socketFile identifies the file that a unix socket is bound to. The zero socketFile: there is none.
type socketFile struct {
	ino          uint32 // the lower half of the inode number
	major, minor uint32 // of the file system
}

// ofUnix returns the error for a type of unix socket that commands do not have.
func ofUnix(kind, proto int) syscall.Errno {
	switch kind & seccomp.SockTypeMask {
	case unix.SOCK_STREAM, unix.SOCK_SEQPACKET:
	default:
		return syscall.EACCES
	}
	if proto != 0 && proto != unix.AF_UNIX {
		return syscall.EPROTONOSUPPORT
	}
	return 0
}

func isUnix(fd sys.FD) bool {
	domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && domain == unix.AF_UNIX
}

func (s *sockets) listenUnix(ino uint64, fd sys.FD, backlog int) syscall.Errno {
	file, _, e := boundTo(ino)
	switch {
	case e != 0:
		return e
	case file == socketFile{}:
		return syscall.EINVAL
	}
	s.mu.Lock()
	if len(s.files) >= maxIdle {
		for ino := range s.files {
			if _, listens, e := boundTo(ino); e != 0 || !listens {
				delete(s.files, ino)
			}
		}
	}
	s.files[ino] = file
	s.mu.Unlock()
	e = errnoOf(unix.Listen(int(fd), backlog))
	if e == 0 {
		s.drop(ino)
	}
	return e
}

// connectUnix connects a unix socket to another one of the same command. It is called on other threads than the
// Deputy's own.
func (d *Deputy) connectUnix(l notify.Listener, n *notify.Notification, ino uint64) {
	file, e := d.socketAt(n)
	if e == 0 && !l.Valid(n.ID) {
		e = syscall.EINTR
	}
	if e == 0 && !d.own(file) {
		e = syscall.ECONNREFUSED
	}
	if e != 0 {
		file.Close()
		l.Answer(n.ID, e)
		return
	}
	d.sockets.using.Lock()
	defer d.sockets.using.Unlock()
	d.sockets.connectFile(l, n, ino, file)
}

// own reports whether a socket of the command listens at a file, which is where the command may make files.
func (d *Deputy) own(file sys.FD) bool { return d.mayChange(file) && d.sockets.owns(file) }

func (s *sockets) connectFile(l notify.Listener, n *notify.Notification, ino uint64, file sys.FD) {
	if !s.begin(l, n, ino, func(p *dial) syscall.Errno {
		defer file.Close()
		to := &unix.SockaddrUnix{Name: sys.ProcPath(int(file))}
		for begun := time.Now(); ; time.Sleep(notify.Room(time.Since(begun))) {
			nonblock, e := s.attemptOwn(p.fd, to)
			if nonblock || e != syscall.EAGAIN {
				return e
			}
			if e := s.stops(l, p); e == syscall.EINPROGRESS {
				return syscall.EAGAIN
			} else if e != 0 {
				return e
			}
		}
	}) {
		file.Close()
	}
}

// attemptOwn is attempt for a unix socket, and ends the connection if somebody else called listen(2) at its other end.
func (s *sockets) attemptOwn(fd sys.FD, to *unix.SockaddrUnix) (nonblock bool, e syscall.Errno) {
	if nonblock, e = attempt(fd, to); e != 0 {
		return nonblock, e
	}
	peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(peer.Pid) != os.Getpid() {
		e = s.disconnect(fd, syscall.ECONNREFUSED)
	}
	return nonblock, e
}

// socketAt opens the file that the address argument of connect(2) names.
func (d *Deputy) socketAt(n *notify.Notification) (sys.FD, syscall.Errno) {
	var raw [unix.SizeofSockaddrUnix]byte
	size := uint64(uint32(n.Args[2]))
	if size <= 2 || size > uint64(len(raw)) {
		return sys.None, syscall.EINVAL
	}
	if e := notify.ReadMemory(n.PID, uintptr(n.Args[1]), raw[:size]); e != 0 {
		return sys.None, e
	}
	name, _, _ := bytes.Cut(raw[2:size], []byte{0})
	switch {
	case binary.NativeEndian.Uint16(raw[:]) != unix.AF_UNIX:
		return sys.None, syscall.EINVAL
	case len(name) == 0: // an abstract name, and commands have no such sockets
		return sys.None, syscall.ECONNREFUSED
	}
	return look(n.PID, unix.AT_FDCWD, string(name), unix.O_PATH|unix.O_CLOEXEC, false)
}

// owns reports whether a socket of the command listens at a file.
func (s *sockets) owns(file sys.FD) bool {
	var st unix.Stat_t
	if unix.Fstat(int(file), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ino, f := range s.files {
		if f.ino != uint32(st.Ino) {
			continue
		}
		now, listens, e := boundTo(ino)
		if e != 0 || !listens {
			delete(s.files, ino)
		} else if now == f && (f.on(unix.Major(st.Dev), unix.Minor(st.Dev)) || f.on(fileSystem(file))) {
			return true
		}
	}
	return false
}

func (f socketFile) on(major, minor uint32) bool { return f.major == major && f.minor == minor }

// fileSystem returns the device of the file system that a file is on. stat(2) reports another one in a subvolume of
// btrfs, and on an overlay of several file systems.
func fileSystem(file sys.FD) (major, minor uint32) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(file)))
	infos, merr := mounts.ReadMountinfo()
	if err != nil || merr != nil {
		return 0, 0
	}
	_, id, _ := strings.Cut(string(info), "mnt_id:\t")
	id, _, _ = strings.Cut(id, "\n")
	for _, in := range infos {
		if strconv.Itoa(in.ID) != id {
			continue
		}
		if _, err := fmt.Sscanf(in.Device, "%d:%d", &major, &minor); err == nil {
			return major, minor
		}
	}
	return 0, 0
}

// boundTo asks the kernel which file a unix socket is bound to, and whether the socket listens.
func boundTo(ino uint64) (file socketFile, listens bool, e syscall.Errno) {
	e = syscall.EOPNOTSUPP // unless the kernel answers about this socket
	err := sys.UnixSockets(uint32(ino), func(u sys.UnixSocket) {
		if u.Ino != uint32(ino) {
			return
		}
		if listens, e = u.Listens, 0; u.HasFile {
			file = socketFile{u.FileIno, u.FileDev >> 20, u.FileDev & (1<<20 - 1)}
		}
	})
	if err != nil {
		return socketFile{}, false, errnoOf(err)
	}
	return file, listens, e
}

// pair gives the caller a pair of sockets whose messages have no address.
func (d *Deputy) pair(l notify.Listener, n *notify.Notification) {
	kind, proto := int(int32(n.Args[1])), int(int32(n.Args[2]))
	if proto != 0 && proto != unix.AF_UNIX {
		l.Answer(n.ID, syscall.EPROTONOSUPPORT)
		return
	}
	made, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|kind&unix.SOCK_NONBLOCK, 0)
	if err != nil {
		l.Answer(n.ID, errnoOf(err))
		return
	}
	a, b := sys.FD(made[0]), sys.FD(made[1])
	defer a.Close()
	defer b.Close()
	memory, e := openMemory(l, n)
	if e == 0 {
		defer memory.Close()
		var numbers [8]byte
		at := int64(n.Args[3])
		for i, fd := range made {
			if e == 0 {
				var number int
				number, e = l.Add(n.ID, fd, kind&unix.SOCK_CLOEXEC != 0)
				binary.NativeEndian.PutUint32(numbers[4*i:], uint32(number))
			}
		}
		if e == 0 {
			if _, err := unix.Pwrite(int(memory), numbers[:], at); err != nil {
				e = syscall.EFAULT
			}
		}
	}
	l.Answer(n.ID, e)
}

// openMemory opens a caller's memory. The descriptor never means another process, even if that gets the caller's
// number.
func openMemory(l notify.Listener, n *notify.Notification) (sys.FD, syscall.Errno) {
	fd, err := unix.Open(notify.Proc(n.PID, "mem"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return sys.None, syscall.EPERM
	}
	memory := sys.FD(fd)
	if !l.Valid(n.ID) {
		memory.Close()
		return sys.None, syscall.EINTR
	}
	return memory, 0
}
