//go:build linux

// Package sys wraps system calls: it has the type that owns a descriptor, and the one loop that repeats an interrupted
// call. It imports nothing of this module, and makes no decision about what may be opened.
package sys

import (
	"math"

	"golang.org/x/sys/unix"
)

// FD is a descriptor that whoever holds it has to close. The zero FD is not
// valid as such: use None for "no descriptor".
type FD int

// None is not a descriptor; closing it does nothing.
const None FD = -1

// Close closes the descriptor and forgets it, so that closing twice does no harm.
func (f *FD) Close() {
	if *f >= 0 {
		_ = unix.Close(int(*f)) // close(2): never to be repeated, whatever it says
		*f = None
	}
}

// Read is read(2), repeated when a signal interrupted it.
func (f FD) Read(b []byte) (n int, err error) {
	err = Retry(func() error {
		n, err = unix.Read(int(f), b)
		return err
	})
	return n, err
}

// retries is how often Retry repeats a call: more often than signals can interrupt it, so that a seccomp filter that
// answers EINTR to each does not keep the caller for ever.
const retries = 10000

// Retry repeats a system call until no signal interrupts it.
func Retry(call func() error) (err error) {
	for range retries {
		if err = call(); err != unix.EINTR {
			break
		}
	}
	return err
}

// Pipe is pipe2(2), close-on-exec.
func Pipe() (r, w FD, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return None, None, err
	}
	return FD(p[0]), FD(p[1]), nil
}

// SeqPacket is a connected pair of sockets that keep messages apart, close-on-exec.
func SeqPacket() (a, b FD, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return None, None, err
	}
	return FD(p[0]), FD(p[1]), nil
}

// Kill is kill(2) for one process. Numbers that the kernel takes for groups of processes, or for all, are no process's.
// Where a filter refuses kill(2), pidfd_send_signal(2) does it.
func Kill(pid int, signal unix.Signal) error {
	if pid < 1 || pid > math.MaxInt32 {
		return unix.ESRCH
	}
	err := unix.Kill(pid, signal)
	if err == nil || err == unix.ESRCH || err == unix.EINVAL {
		return err
	}
	fd, ferr := unix.PidfdOpen(pid, 0)
	if ferr != nil {
		return err
	}
	defer unix.Close(fd)
	if ferr = unix.PidfdSendSignal(fd, signal, nil, 0); ferr == nil || ferr == unix.ESRCH {
		return ferr
	}
	return err
}

// Wait is wait4(2) for one child. The status is zero where there is no such child.
func Wait(pid int) (status unix.WaitStatus) {
	if pid < 1 || pid > math.MaxInt32 { // groups of children, or any
		return 0
	}
	_ = Retry(func() error {
		_, err := unix.Wait4(pid, &status, 0, nil)
		return err
	})
	return status
}

// Send sends one message with descriptors; a closed other end is EPIPE, not a signal.
func (f FD) Send(b []byte, fds ...int) error { return f.send(b, fds, 0) }

// TrySend is Send without waiting: EAGAIN where there is no room for the message.
func (f FD) TrySend(b []byte, fds ...int) error { return f.send(b, fds, unix.MSG_DONTWAIT) }

func (f FD) send(b []byte, fds []int, flags int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return Retry(func() error {
		return unix.Sendmsg(int(f), b, rights, nil, unix.MSG_NOSIGNAL|flags)
	})
}
