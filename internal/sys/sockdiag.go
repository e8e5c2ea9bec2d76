//go:build linux

package sys

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

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
	n, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	fd := FD(n)
	defer fd.Close()
	const (
		byFamily, showNameAndVFS = 20, 3 // SOCK_DIAG_BY_FAMILY, UDIAG_SHOW_NAME | UDIAG_SHOW_VFS
		header, message          = unix.SizeofNlMsghdr, 16
		stateListen              = 10 // TCP_LISTEN, which unix sockets have too
	)
	flags, buf := uint16(unix.NLM_F_REQUEST), make([]byte, 512)
	if ino == 0 {
		flags, buf = flags|unix.NLM_F_DUMP, make([]byte, 16<<10)
	}
	// struct nlmsghdr, struct unix_diag_req
	q := make([]byte, header+24)
	binary.NativeEndian.PutUint32(q, uint32(len(q)))
	binary.NativeEndian.PutUint16(q[4:], byFamily)
	binary.NativeEndian.PutUint16(q[6:], flags)
	q[header] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[header+4:], ^uint32(0)) // in all states
	binary.NativeEndian.PutUint32(q[header+8:], ino)
	binary.NativeEndian.PutUint32(q[header+12:], showNameAndVFS)
	binary.NativeEndian.PutUint64(q[header+16:], ^uint64(0)) // any cookie
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
			case kind != byFamily || size < header+message: // NLMSG_ERROR
				return unix.EOPNOTSUPP
			}
			s := UnixSocket{Ino: binary.NativeEndian.Uint32(b[header+4:]), Listens: b[header+2] == stateListen}
			s.attributes(b[header+message : size])
			do(s)
			b = b[min(len(b), (size+3)&^3):]
		}
		if ino != 0 {
			return nil
		}
	}
}

func (s *UnixSocket) attributes(b []byte) {
	const attrName, attrVFS = 0, 1 // UNIX_DIAG_NAME, UNIX_DIAG_VFS
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		value := b[4:size]
		switch binary.NativeEndian.Uint16(b[2:]) {
		case attrName:
			s.Name = string(bytes.TrimRight(value, "\x00"))
		case attrVFS:
			if s.HasFile = len(value) >= 8; s.HasFile {
				s.FileIno, s.FileDev = binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:])
			}
		}
		b = b[min(len(b), (size+3)&^3):]
	}
}
