//go:build linux

package sys

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// stateListen is TCP_LISTEN, a state of sockets in sock_diag(7), which unix sockets have too.
const stateListen = 10

// A UnixSocket is a unix socket of this network namespace, as sock_diag(7) describes it.
type UnixSocket struct {
	Ino     uint32 // the lower half of the socket's inode number
	Listens bool
	Name    string // that it was bound to, as bind(2) was told it; empty: none
	// HasFile says that the socket is bound to a file.
	HasFile bool
	FileIno uint32 // the lower half of the file's inode number
	FileDev uint32 // the device of its file system, as the kernel keeps it, with 20 bits for the minor number
}

// UnixSockets asks the kernel for the unix socket with an inode number, or for all if ino is 0. It calls do for each.
func UnixSockets(ino uint32, do func(UnixSocket)) error {
	const showNameAndVFS, message = 3, 16 // UDIAG_SHOW_NAME | UDIAG_SHOW_VFS
	q := make([]byte, 24)                 // struct unix_diag_req
	q[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // in all states
	binary.NativeEndian.PutUint32(q[8:], ino)
	binary.NativeEndian.PutUint32(q[12:], showNameAndVFS)
	binary.NativeEndian.PutUint64(q[16:], ^uint64(0)) // any cookie
	return SockDiag(q, ino == 0, message, func(b []byte) {
		s := UnixSocket{Ino: binary.NativeEndian.Uint32(b[4:]), Listens: b[2] == stateListen}
		s.attributes(b[message:])
		do(s)
	})
}

// SockDiag sends a request of sock_diag(7), for one socket or for all, and calls do for each answer, which has at least
// least bytes. EOPNOTSUPP: the kernel answers with an error, for example because there is no such socket.
func SockDiag(request []byte, all bool, least int, do func(b []byte)) error {
	n, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	fd := FD(n)
	defer fd.Close()
	const byFamily, header = 20, unix.SizeofNlMsghdr // SOCK_DIAG_BY_FAMILY
	flags, buf := uint16(unix.NLM_F_REQUEST), make([]byte, 512)
	if all {
		flags, buf = flags|unix.NLM_F_DUMP, make([]byte, 16<<10)
	}
	q := make([]byte, header, header+len(request)) // struct nlmsghdr
	binary.NativeEndian.PutUint32(q, uint32(header+len(request)))
	binary.NativeEndian.PutUint16(q[4:], byFamily)
	binary.NativeEndian.PutUint16(q[6:], flags)
	q = append(q, request...)
	if err := Retry(func() error { return unix.Sendto(n, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) }); err != nil {
		return err
	}
	for {
		n, err := fd.Read(buf)
		if err != nil {
			return err
		}
		for b := buf[:n]; len(b) >= header; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < header || size > len(b) {
				return unix.EBADMSG
			}
			switch kind := binary.NativeEndian.Uint16(b[4:]); {
			case kind == unix.NLMSG_DONE:
				return nil
			case kind != byFamily || size < header+least: // NLMSG_ERROR
				return unix.EOPNOTSUPP
			}
			do(b[header:size])
			b = b[min(len(b), (size+3)&^3):]
		}
		if !all {
			return nil
		}
	}
}

func (s *UnixSocket) attributes(b []byte) {
	const attrName, attrVFS = 0, 1 // UNIX_DIAG_NAME, UNIX_DIAG_VFS
	for kind, value := range attributes(b) {
		switch kind {
		case attrName:
			s.Name = string(bytes.TrimRight(value, "\x00"))
		case attrVFS:
			if s.HasFile = len(value) >= 8; s.HasFile {
				s.FileIno, s.FileDev = binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:])
			}
		}
	}
}

// attributes yields the attributes of a netlink message (netlink(7)), until one is not whole.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(kind uint16, value []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			size := int(binary.NativeEndian.Uint16(b))
			if size < unix.SizeofNlAttr || size > len(b) || !yield(binary.NativeEndian.Uint16(b[2:]), b[unix.SizeofNlAttr:size]) {
				return
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}
