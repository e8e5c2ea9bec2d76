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
	list, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(list) != 1 {
		return None, errors.Join(unix.EPROTO, err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return None, errors.Join(unix.EPROTO, err)
	}
	return FD(fds[0]), nil
}
