//go:build linux

package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ReceiveFD receives one descriptor that was sent over a socket already.
func ReceiveFD(socket FD) (FD, error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n := 0
	err := Retry(func() (err error) {
		_, n, _, _, err = unix.Recvmsg(int(socket), data, rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return err
	})
	if err != nil {
		return None, err
	}
	return RightsFD(rights[:n])
}

// RightsFD returns the one descriptor in a control message. If there is none, this process may not have more.
func RightsFD(rights []byte) (FD, error) {
	if len(rights) == 0 {
		return None, unix.EMFILE
	}
	list, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(list) != 1 {
		return None, errors.Join(unix.EPROTO, err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return None, errors.Join(unix.EPROTO, err)
	}
	return FD(fds[0]), nil
}
